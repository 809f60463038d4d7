#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# A host's ggml that lists a device and cannot compute on it (tests/system/stand_in.c): the server tries each before
# it offers it, and says why it does not.

load system.bash

setup() {
    common_setup
    # Over vtest there would be a server for each program that runs alone.
    SYSTEM_TRANSPORT=unix
    BACKENDS=$(realpath "$OUT/tests/system/backends")
    trial_config
}

trial_config() { # [MEMBERS]
    VTEST_CONFIG="{\"ggml_backends_dir\": \"$BACKENDS\", \"threads\": 1${1:+, $1}}"
}

trial_start() { # FAULT [VARIABLE=VALUE...]
    VTEST_ENV=("STAND_IN=$1" "${@:2}")
    server_start
}

# What CUDA's library says, as the stand-in does.
WORDS='CUDA error: the provided PTX was compiled with an unsupported toolchain.'

# Processes that have loaded drivers to try them, and graphs of a bad device.
n_trials() { grep -c 'first worker: stand-in: loaded' "$VTEST_LOG"; }
n_bad() { grep -cE '^apir: [a-z0-9 ]*: (stand-in: a bad device|CUDA error)' "$VTEST_LOG"; }

# The devices that a program sees are these of the host's, and it computes on the first.
offers() { # NAME...
    run -0 --separate-stderr remote APIR_LOG=warn "$EXERCISE" list
    echo "$output"
    echo "$stderr"
    [[ $(grep -c '^APIR' <<<"$output") -eq $# ]]
    refute grep -q 'Bad0' <<<"$stderr"
    exercise compute APIR0
    exercise transfers APIR0
}

# A program is told this and goes on without; nobody's worker is lost by a signal.
declines_with() { # PATTERN
    run -0 --separate-stderr remote "$EXERCISE" list
    echo "$stderr"
    refute grep -q '^APIR' <<<"$output"
    grep -q "$1" <<<"$stderr"
    refute grep 'worker killed by signal' <<<"$stderr"
}

# A process is to leave it out.
is_told() { [[ -n $1 ]] && tr '\0' ' ' <"/proc/$1/cmdline" | grep -q -- '--without Bad0 '; }

doctor() { run remote "$APIR" doctor; }

@test "trial: of two devices the one that computes is offered, and the log says why not the other" {
    trial_start abort
    offers Good0
    grep -q "device Bad0 is left out: it cannot compute: .*$WORDS.*signal 6" "$VTEST_LOG"
    # Nothing of it reaches the log as it was.
    refute grep $'\033' "$VTEST_LOG"
    # Every client after that: nobody tries again, or comes near it.
    local n
    for n in 1 2 3; do exercise compute; done
    [[ $(grep -c 'is left out' "$VTEST_LOG") -eq 1 && $(n_bad) -eq 1 ]]
    [[ $(n_trials) -eq 2 ]]
}

@test "trial: nor by a device that ends the process silently, fails, or gives a wrong result" {
    local fault want
    while IFS='|' read -r fault want; do
        trial_start "$fault"
        offers Good0
        grep -q "device Bad0 is left out: it cannot compute: .*$want" "$VTEST_LOG" ||
            { echo "$fault: $(grep 'left out' "$VTEST_LOG")"; false; }
        vtest_stop
    done <<'END'
signal|killed by signal 11
fail|ggml's status -1
wrong|wrong result: .* instead of
open|it does not open
END
}

@test "trial: a backend that ggml passes over without a word is named with the reason" {
    trial_config '"devices": ["Good0"]'
    trial_start version
    declines_with 'no device that may be offered'
    grep -Eq 'ggml passes over a backend: .*/libggml-metal.so is made for version [0-9]+ of its interface, and this ggml has version [0-9]+$' "$VTEST_LOG"
    vtest_stop
    # One that is no library, beside one that is good.
    BACKENDS=$(mktemp -d "$T/backends.XXXX")
    cp "$OUT/tests/system/backends/libggml-metal.so" "$BACKENDS/"
    echo 'no library' >"$BACKENDS/libggml-cuda.so"
    trial_config '"devices": ["Good0", "CUDA0"]'
    trial_start ''
    offers Good0
    grep -q 'ggml passes over a backend: .*/libggml-cuda.so: ' "$VTEST_LOG"
    refute grep -q 'passes over a backend: .*libggml-metal' "$VTEST_LOG"
    vtest_stop
    # What nobody wants is not missed.
    trial_config '"devices": ["Good0"]'
    trial_start ''
    offers Good0
    refute grep -q 'passes over' "$VTEST_LOG"
}

@test "trial: a device whose memory others have is offered all the same" {
    trial_start memory
    run -0 remote "$EXERCISE" list
    [[ $(grep -c '^APIR' <<<"$output") -eq 2 ]]
    grep -q 'Bad0 has no memory left, and is not tried' "$VTEST_LOG"
    refute grep 'is left out' "$VTEST_LOG"
}

@test "trial: a device that hangs is given up after seconds_to_start" {
    trial_config '"seconds_to_start": 3'
    trial_start hang
    offers Good0
    grep -q 'device Bad0 is left out: it cannot compute: .*seconds_to_start: 3' "$VTEST_LOG"
}

@test "trial: where no device computes a program is told so in ggml's words, and loses nothing" {
    local fault
    for fault in only-abort both-abort; do
        trial_start "$fault"
        declines_with "the host's device Bad0 cannot compute: .*$WORDS"
        # The next one at once: nothing is tried again for spare_seconds.
        declines_with "the host's device Bad0 cannot compute: .*$WORDS"
        [[ $fault == only-abort || $(n_trials) -eq 3 ]]
        [[ $fault != only-abort || $(n_trials) -eq 2 ]]
        refute grep 'is lost: worker' "$VTEST_LOG"
        vtest_stop
    done
}

@test "trial: where no device computes it is tried again for a later program, spare_seconds afterwards" {
    trial_config '"spare_seconds": 1'
    trial_start only-abort
    declines_with "cannot compute"
    again() { declines_with "cannot compute" && [[ $(n_bad) -eq 2 ]]; }
    wait_until 30 again
}

@test "trial: a changed configuration is tried anew, and no program's worker but the first" {
    trial_start wrong
    offers Good0
    [[ $(n_bad) -eq 1 ]]
    local changed=${VTEST_CONFIG/\"threads\": 1/\"threads\": 2}
    echo "$changed" >"$VTEST_DIR/backend.json"
    offers Good0
    [[ $(n_bad) -eq 2 && $(n_trials) -eq 4 ]]
    # A device that is not asked for is not tried.
    echo "{\"devices\": [\"Good0\"], ${changed#\{}" >"$VTEST_DIR/backend.json"
    offers Good0
    [[ $(n_bad) -eq 2 && $(n_trials) -eq 5 ]]
}

@test "trial: it is before any program's worker, and those after it are told, over either socket" {
    for SYSTEM_TRANSPORT in unix vtest; do
        trial_config '"spare_workers": 1, "shader_seconds": 0'
        trial_start abort APIR_LOG=info
        hold_start
        echo go >&"$TALK"
        wait_until 60 grep -q "right 1" "$T/hold.out"
        wait_until 30 n_spares_is 1
        is_told "$(spares)"
        exercise compute
        [[ $(n_bad) -eq 1 && $(n_trials) -eq 2 ]]
        # Before the first context had one.
        [[ $(grep -n 'is left out' "$VTEST_LOG" | cut -d: -f1) -lt \
            $(grep -n 'context 1: has the worker that tried the devices' "$VTEST_LOG" | cut -d: -f1) ]]
        vtest_stop
    done
}

@test "trial: who fills the shader cache is told, too" {
    trial_config '"spare_workers": 0, "shader_seconds": 60'
    trial_start abort
    exercise compute
    filler_is_told() { is_told "$(server_pids apir-shaders)"; }
    wait_until 30 filler_is_told
}

@test "trial: several programs wait for it, and all compute" {
    trial_start abort
    local i
    for i in 1 2 3; do remote_job "client$i" "$EXERCISE" compute; done
    for i in "${JOBS_STARTED[@]}"; do wait "$i"; done
    [[ $(n_bad) -eq 1 && $(n_trials) -eq 2 ]]
}

@test "trial: while it runs nothing of a program's is in that process, and the server answers" {
    trial_config '"seconds_to_start": 60'
    trial_start hang
    local trying task
    trying_is_there() { trying=$(server_pids apir-loading) && [[ -n $trying ]] && [[ $(n_bad) -eq 1 ]]; }
    remote_job waits "$EXERCISE" compute
    wait_until 60 trying_is_there
    # In its sandbox, with all of it.
    for task in /proc/"$trying"/task/*/status; do
        grep -Eq '^NoNewPrivs:\s1$' "$task"
        grep -Eq '^Seccomp:\s2$' "$task"
        [[ $(grep -cE '^Cap(Inh|Prm|Eff|Bnd|Amb):\s0000000000000000$' "$task") -eq 5 ]]
    done
    refute grep -E 'memfd:apir-(ring|arena)' "/proc/$trying/maps"
    # shellcheck disable=SC2012 # names of descriptors
    ls -l "/proc/$trying/fd" >"$T/fds"
    refute grep -E 'memfd:apir-(ring|arena)' "$T/fds"
    # What kills it from outside says nothing of a device; the program gets a worker.
    kill -KILL "$trying"
    wait_until 60 grep -q 'the trial of the devices has no result' "$VTEST_LOG"
    refute grep 'is left out' "$VTEST_LOG"
}

@test "trial: apir doctor says which device is left out and why, and what to do" {
    trial_start abort
    doctor
    echo "$output"
    grep -q "left out: the host's device Bad0 cannot compute: .*$WORDS" <<<"$output"
    grep -q 'Update the driver' <<<"$output"
    vtest_stop
    trial_start only-abort
    doctor
    echo "$output"
    [[ $status -ne 0 ]]
    grep -q "the host's device Bad0 cannot compute: .*$WORDS" <<<"$output"
    grep -q 'Update the driver' <<<"$output"
}
