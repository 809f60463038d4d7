#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# apir events: who was refused or lost, and why. apir metrics: the same and what top shows, as OpenMetrics.

load ../system.bash
load top.bash

# has KIND TEXT: an event of that kind has the text in its reason.
has() {
    "$APIR" events --json >"$T/events" || return
    jq -se --arg kind "$1" --arg text "$2" 'any(.[]; .kind == $kind and (.reason | contains($text)))' "$T/events"
}

@test "events: a refused and a lost program, and memory over a limit, with their reasons" {
    VTEST_CONFIG='{"threads": 1, "max_contexts": 1, "context_device_memory_mib": 100}'
    top_start
    run -0 "$APIR" events
    [[ -z $output ]]
    client a
    answers a 60 "granted 60"
    answers a 50 "refused 50"
    has limit 'this program has 60 MiB of the device, 50 MiB more would be over'
    jq -se ".[0] | .context == 1 and .pid == ${CLIENT_PID[a]} and .who.name == \"apir-exercise\"" "$T/events"
    remote "$EXERCISE" list >/dev/null 2>&1
    has refused 'serves 1 contexts at most (max_contexts)'
    kill -KILL "$(workers)"
    wait_until 10 has lost 'worker killed by signal 9'
    look
    context_is '.state == "lost" and (.reason | contains("signal 9"))'
    run -0 "$APIR" events
    [[ ${#lines[@]} -eq 3 && ${lines[0]} == *" limit context 1 uid "*"MiB"* && ${lines[2]} == *" lost "* ]]
    # In order, and no end of a program that is its own.
    jq -se '[.[].number] == [1, 2, 3]' "$T/events"
    kill -KILL "${CLIENT_PID[a]}"
    wait_until 10 n_workers_is 0
    wait_until 10 nobody_is_there
    run -0 "$APIR" events
    [[ ${#lines[@]} -eq 3 ]]
}
nobody_is_there() { look && [[ $(jq '.contexts | length' <<<"$SEEN") -eq 0 ]]; }

@test "events: shared memory that programs of a class have no more of" {
    VTEST_CONFIG='{"threads": 1, "class_shm_mib": 10}'
    top_start
    client a
    remote "$EXERCISE" list >/dev/null 2>&1
    has limit '(class_shm_mib: 10)'
    answers a compute right
}

@test "events: --follow tells each of them once" {
    VTEST_CONFIG='{"threads": 1, "context_device_memory_mib": 100}'
    top_start
    client a
    answers a 101 "refused 101"
    "$APIR" events --follow >"$T/followed" 3>&- &
    JOBS_STARTED+=("$!")
    wait_until 10 followed_are 1
    answers a 102 "refused 102"
    wait_until 10 followed_are 2
    answers a 103 "refused 103"
    wait_until 10 followed_are 3
    grep -q '101 MiB' "$T/followed"
    grep -q '103 MiB' "$T/followed"
}
followed_are() { [[ $(wc -l <"$T/followed") -eq $1 ]]; }

# The grammar of OpenMetrics text, as far as we write it: families as a whole, TYPE before HELP before
# samples of that name with the suffix of the type, labels escaped, no sample twice, # EOF at the end.
openmetrics() {
    python3 -c '
import re, sys
lines = sys.stdin.read().split("\n")
assert lines[-2:] == ["# EOF", ""], lines[-2:]
label = r"[a-zA-Z_]\w*=\"(?:[^\"\\\n]|\\[\"\\n])*\""
sample = re.compile(r"([a-zA-Z_:][\w:]*)\{(%s(?:,%s)*)\} (-?[0-9.]+(?:e[+-]?[0-9]+)?)" % (label, label))
suffix = {"counter": "_total", "gauge": "", "stateset": ""}
done, name, seen = set(), None, set()
for line in lines[:-2]:
    if line.startswith("# TYPE "):
        name, kind = line.split()[2:]
        assert name not in done, name
        done.add(name)
    elif line.startswith("# HELP "):
        assert line.split()[2] == name, line
    else:
        m = sample.fullmatch(line)
        assert m and m[1] == name + suffix[kind], line
        assert (m[1], m[2]) not in seen, line
        seen.add((m[1], m[2]))
        keys = re.findall(r"(?:^|,)([a-zA-Z_]\w*)=", m[2])
        assert len(keys) == len(set(keys)), line
assert len(seen) >= int(sys.argv[1]), len(seen)' "$1"
}

@test "metrics: OpenMetrics text with what the program did" {
    VTEST_CONFIG='{"threads": 1, "context_device_memory_mib": 100}'
    top_start
    client a
    answers a 60 "granted 60"
    answers a 50 "refused 50"
    answers a compute right
    "$APIR" metrics >"$T/metrics"
    openmetrics 20 <"$T/metrics"
    look
    grep -E "^apir_context_graphs_total\{.*pid=\"${CLIENT_PID[a]}\".*\} $(context .graphs)\$" "$T/metrics"
    grep -E "^apir_device_memory_bytes\{.*\} $(context '.devices | add')\$" "$T/metrics"
    grep -E '^apir_context_state\{.*apir_context_state="served"\} 1$' "$T/metrics"
    grep -E '^apir_events_total\{.*kind="limit"\} 1$' "$T/metrics"
    grep -E "^apir_server_up\{.*server=\"$VTEST_PID\"\} 1\$" "$T/metrics"
    kill -STOP "$VTEST_PID"
    run -1 --separate-stderr "$APIR" metrics
    openmetrics 1 <<<"$output"
    [[ $output == *'apir_server_up{'*'} 0'* ]]
    kill -CONT "$VTEST_PID"
}

@test "metrics: none is text that parses, too" {
    run -0 --separate-stderr "$APIR" metrics
    openmetrics 0 <<<"$output"
    run -3 "$APIR" events
}

@test "top: a socket of somebody else's says what it likes, and is shown cleaned or not at all" {
    mkdir -p "$T/apir/top"
    cat >"$T/liar.py" <<'PY'
import json, os, socket, sys
texts = [
    b"", b"nonsense", b"[1]", b"{}", b"{\"contexts\": 7, \"events\": {}, \"devices\": null, \"server\": []}\n",
    b"{\"contexts\": [1, null, [], {\"id\": \"x\", \"devices\": {\"a\": -1, \"b\": \"c\"}}], \"events\": [2, {}]}",
    json.dumps({"error": 1, "server": {"socket": "/x/host-\x1b[2J\"\\/y", "now_ns": 1e300},
                "contexts": [{"pid": 2 ** 63 - 1, "state": "a\nb", "busy_ns": 1e99, "reason": "\u202e" * 5000,
                              "devices": {"\x1b\"\\": 2 ** 63 - 1, "z": 2 ** 63 - 1}}]}).encode(),
    b"[" * 100000, b"x" * (5 << 20),
]
for i, text in enumerate(texts):
    if os.fork() == 0:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.bind("%s/server-%d-0" % (sys.argv[1], i))
        s.listen(16)
        while True:
            c, _ = s.accept()
            try: c.sendall(text)
            except OSError: pass
            c.close()
os.wait()
PY
    setsid python3 "$T/liar.py" "$T/apir/top" >/dev/null 2>&1 3>&- &
    LIAR=$!
    wait_until 10 all_listen 9
    for command in 'top --once --interval 0.1' 'top --once --interval 0.1 --json' events 'events --json' metrics; do
        # shellcheck disable=SC2086
        run --separate-stderr "$APIR" $command
        [[ $status -eq 1 ]]
        refute grep -q $'\033' <<<"$output"
        [[ $command != metrics ]] || openmetrics 1 <<<"$output"
        [[ $command != *--json ]] || jq . <<<"$output" >/dev/null
    done
}
teardown() {
    [[ -z ${LIAR-} ]] || kill -KILL -- "-$LIAR" || :
    common_teardown
}
all_listen() { [[ $(grep -c "$T/apir/top/server-" /proc/net/unix) -eq $1 ]]; }
