#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir top: what it shows is what programs do, and looking costs nobody anything.

load ../system.bash
load top.bash

@test "top: graphs, bytes and device memory are those of the program" {
    top_start
    client a
    answers a 60 "granted 60"
    answers a compute right
    look
    context_is '.devices | add >= 62914560'
    local graphs memory
    graphs=$(context .graphs) memory=$(context '.devices | add')
    for _ in {1..10}; do answers a compute right; done
    answers a 7 "granted 7"
    look
    context_is ".graphs == $graphs + 10 and (.devices | add) == $memory + 7 * 1048576"
    context_is '.state == "served" and .odd == false and .queue == 0 and .shm > 0'
    context_is '.messages > .graphs and .set_bytes > 0 and .got_bytes > 0'
    context_is '.graphs_ns > 0 and .longest_ns > 0 and .longest_ns <= .graphs_ns and .graphs_ns <= .busy_ns'
    context_is ".uid == $(id -u) and .pid == ${CLIENT_PID[a]} and .who.name == \"apir-exercise\""
    context_is ".worker == $(workers) and (.sandbox | length > 0)"
    tell a free
    look
    context_is "(.devices | add) == $memory"
}

@test "top: rates are of the interval, and who computes all the time is busy all the time" {
    top_start
    client idle
    remote_job busy "$EXERCISE" long
    busy_worker "$(workers)"
    wait_until 60 computes "$WORKER" "$(cpu_ticks "$WORKER")"
    run -0 "$APIR" top --once --json --interval 2
    jq -e '.servers[0].contexts | map(.rates.busy) | sort | .[0] < 0.05 and .[1] > 0.9' <<<"$output"
}

@test "top: another user sees nothing, and root all" {
    [[ $(id -u) -eq 0 ]] || skip "needs root, to be two users"
    top_start
    chmod 755 "$T"
    client a
    [[ $(stat -c %a "$T/apir/top"/server-*) == 600 && $(stat -c %a "$T/apir/top") == 700 ]]
    chmod 755 "$T/apir" "$T/apir/top"
    run -3 as_other 1001 env XDG_RUNTIME_DIR="$T" "$APIR" top --once --json
    # Not by the socket's mode alone.
    chmod 666 "$T/apir/top"/server-*
    run as_other 1001 env XDG_RUNTIME_DIR="$T" "$APIR" top --once --json --interval 0.1
    refute grep -q contexts <<<"$output"
    look
    context_is '.state == "served"'
}

@test "top: a server that is stopped is one line, and no wait" {
    top_start
    kill -STOP "$VTEST_PID"
    run -1 timeout "$(patience 20)" "$APIR" top --once
    [[ $output == *"server $VTEST_PID ("*") does not answer"* ]]
    kill -CONT "$VTEST_PID"
    run -0 timeout "$(patience 20)" "$APIR" top --once
}

@test "top: a server that was killed is not shown, and the next one removes what it has left" {
    top_start
    kill -KILL "$VTEST_PID"
    wait "$VTEST_PID" || :
    [[ $(find "$T/apir/top" -type s | wc -l) -eq 1 ]]
    run -3 "$APIR" top --once --json
    jq -e '.servers == []' <<<"${lines[0]}"
    unix_restart "$OUT"
    [[ $(find "$T/apir/top" -type s) == "$T/apir/top/server-$VTEST_PID-0" ]]
    # One that ends in order leaves nothing.
    kill -TERM "$VTEST_PID"
    wait "$VTEST_PID" || :
    [[ -z $(find "$T/apir/top" -type s) ]]
}

@test "top: connections that never read cost no program anything" {
    top_start
    client a
    local fds i
    fds=$(n_fds "$VTEST_PID")
    python3 -c '
import socket, sys, time
s = []
for i in range(12):
    c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    c.setblocking(False)
    try: c.connect(sys.argv[1])
    except BlockingIOError: pass
    s.append(c)
print("connected", flush=True)
sys.stdin.read()' "$T/apir/top/server-$VTEST_PID-0" < <(sleep 1000) >"$T/flood" 3>&- &
    JOBS_STARTED+=("$!")
    wait_until 10 grep -q connected "$T/flood"
    for i in {1..20}; do answers a compute right; done
    # No more of them at once than it says.
    (($(n_fds "$VTEST_PID") <= fds + 4))
    client b
    answers b compute right
    kill -KILL "${JOBS_STARTED[1]}"
    wait_until 20 looks
}

@test "top: programs of a VM are the VM's" {
    SYSTEM_TRANSPORT=vtest
    top_start
    client a
    answers a 60 "granted 60"
    look
    context_is '(.devices | add) == 62914560 and .state == "served"'
    # Here the test server is what a VMM is.
    context_is ".who.vm == $VTEST_PID and (.who.text | startswith(\"vm:$VTEST_PID virgl_test\"))"
    jq -e ".class == \"vm\" and .server.vmm == $VTEST_PID" <<<"$SEEN"
}

# Whoever has a worker's page can write anything there: whoever can, does so to one that runs.
scribble() { # PID OFFSET NUMBER
    python3 -c '
import struct, sys
pid, offset, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
page = [l for l in open(f"/proc/{pid}/maps") if "apir-status" in l][0]
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
    mem.seek(int(page.split("-")[0], 16) + 64 + offset)
    mem.write(struct.pack("<Q", number))' "$@"
}

@test "top: a worker that writes nonsense into its page is shown within bounds, and marked" {
    [[ $(id -u) -eq 0 ]] || skip "needs root, to write into another process"
    top_start
    client a
    answers a compute right
    look
    context_is '.odd == false'
    local before=$SEEN worker place
    worker=$(workers)
    # Its words in their order: work, graphs_ns, longest_ns, turns_ns, set_bytes, got_bytes, then its messages.
    for place in 0 8 16 24 32 40 48 $((48 + 16 * 21)); do
        scribble "$worker" "$place" $((1 << 62))
    done
    look
    context_is '.odd == true'
    jq -se '.[0].server.now_ns as $now | (.[0].contexts[0].began_ms * 1000000) as $began | .[0].contexts[0]
        | [.busy_ns, .graphs_ns, .longest_ns, .turns_ns, .messages, .graphs] | all(. <= $now - $began + 1000000)' <<<"$SEEN"
    for place in 0 8 16 24 32 40 48 $((48 + 16 * 21)); do
        scribble "$worker" "$place" 0
    done
    before=$SEEN
    look
    context_is '.odd == true'
    jq -se '[.[].contexts[0]] | [.[0], .[1]] as [$a, $b]
        | ["busy_ns", "graphs_ns", "longest_ns", "turns_ns", "messages", "graphs", "set_bytes", "got_bytes"]
        | all(. as $k | $a[$k] <= $b[$k])' <<<"$before$SEEN"
    run -0 "$APIR" top --once
    [[ $output == *"its counts cannot be"* ]]
    # And that was all that it can do.
    client b
    answers b compute right
}

refreshed() { # N
    [[ -e $T/typescript && $(grep -ac $'\033\\[H' "$T/typescript") -ge $1 ]]
}

@test "top: in a pipe and on a terminal" {
    top_start
    client a
    answers a compute right
    run -0 "$APIR" top --once
    [[ ${lines[0]} == CLASS* && $output == *"${CLIENT_PID[a]} apir-exercise"*served* && $output != *'?'* ]]
    grep -qx 'DEVICE  *MEMORY .*' <<<"$output"
    # script(1) is a terminal.
    script -qefc "$APIR top --interval 0.2" "$T/typescript" >/dev/null 2>&1 </dev/null 3>&- &
    JOBS_STARTED+=("$!")
    # In place, and again and again.
    wait_until 10 refreshed 3
    grep -q 'apir-exercise' "$T/typescript"
}

@test "top: without a folder for its socket a server says so once, and serves" {
    VTEST_ENV=(XDG_RUNTIME_DIR=/nonexistent APIR_LOG=info)
    SYSTEM_TRANSPORT=unix server_start
    exercise compute
    exercise compute
    [[ $(grep -c 'apir top cannot look at this server' "$VTEST_LOG") -eq 1 ]]
}
