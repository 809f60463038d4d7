# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For every .bats file here: names of what was built, models, a server for each test, and waits
# that end as soon as what they wait for is there.
#
# Only processes below our own server are ever signalled: others may run the same programs here.

bats_require_minimum_version 1.5.0

OUT=${APIR_OUT:-build/release-gcc}
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=tests/system/vtest.sh
. tests/system/vtest.sh
# shellcheck source=tests/system/unix.sh
. tests/system/unix.sh

PLUGIN=${APIR_PLUGIN:-$OUT/frontend/libggml-apir.so}
EXERCISE=$OUT/tests/system/apir-exercise
# shellcheck disable=SC2034 # for the tests
APIR=$OUT/cdi/apir
# Without us, on the same host with the same kernels.
NATIVE=(timeout -k 5 "$(patience 120)" env -u GGML_BACKEND_PATH)
# A Vulkan device of one thread, for whoever has this environment.
LAVAPIPE=/usr/share/vulkan/icd.d/lvp_icd.json
VULKAN=(GGML_VK_VISIBLE_DEVICES=0 "VK_DRIVER_FILES=$LAVAPIPE" LP_NUM_THREADS=1)
# A hang is a failure like any other.
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-$(patience 180)}

common_setup() {
    T=$BATS_TEST_TMPDIR
    JOBS_STARTED=()
    STAYS=
    VTEST_ARGS=()
    VTEST_ENV=()
    # Workers and clients share what may be two cores with whatever else runs there.
    VTEST_CONFIG='{"threads": 1}'
    unset GGML_BACKEND_PATH APIR_TRANSPORT APIR_LOG APIR_ON_LOSS APIR_SILENCE_SECONDS
    # The machine's own GPU has no part in these tests.
    export GGML_VK_VISIBLE_DEVICES=
}

# What bats prints only if the test failed.
common_teardown() {
    local pid
    if [[ -z ${BATS_TEST_COMPLETED-} ]]; then
        if [[ -s ${VTEST_LOG-} ]]; then
            echo "--- the server's log, at its end:"
            tail -n 40 "$VTEST_LOG"
        fi
        for pid in "$T"/*.err; do
            [[ -s $pid ]] || continue
            echo "--- ${pid##*/}, at its end:"
            tail -n 15 "$pid"
        done
    fi
    for pid in "${JOBS_STARTED[@]}"; do
        kill -KILL "$pid" 2>/dev/null || :
    done
    # After a SIGSTOP of a test's own.
    for pid in $VTEST_PID $(below "$VTEST_PID"); do
        kill -CONT "$pid" 2>/dev/null || :
    done
    vtest_stop
}

# For files without their own.
setup() { common_setup; }
teardown() { common_teardown; }

# The server's devices may be that one.
vulkan() {
    [[ -r $LAVAPIPE ]] || { [[ -z ${CI-} ]]; skip "no lavapipe here"; }
    VTEST_ENV=("${VULKAN[@]}")
}

# SYSTEM_TRANSPORT says how the clients of any test get to the host: vtest, or unix.
SYSTEM_TRANSPORT=${SYSTEM_TRANSPORT:-vtest}

# One process, and so one render server, for all clients, as in a VMM. Tests look for the worker of a
# program, so there is no other one, unless a test has spare_workers in its configuration.
host_start() { # OUT
    VTEST_ARGS=(--no-fork --multi-clients)
    [[ $VTEST_CONFIG == *'"spare_workers"'* ]] ||
        VTEST_CONFIG=${VTEST_CONFIG%\}}', "spare_workers": 0, "shader_seconds": 0}'
    case $SYSTEM_TRANSPORT in
    vtest) vtest_start "$1" && stay ;;
    unix) unix_start "$1" ;;
    *) echo "SYSTEM_TRANSPORT=$SYSTEM_TRANSPORT is neither vtest nor unix"; return 1 ;;
    esac
}

# Ours ends with the test server, not with its last client: the log has all that it says.
stay() {
    "$OUT/tests/system/stay" "$VTEST_SOCKET" >"$VTEST_DIR/here" </dev/null 3>&- &
    STAYS=$!
    wait_until 10 test -s "$VTEST_DIR/here"
}

server_start() {
    host_start "$OUT"
    mapfile -t REMOTE < <(vtest_env "$OUT")
    REMOTE+=("GGML_BACKEND_PATH=$(realpath "$PLUGIN")")
}

# remote CMD...: a program that finds APIR0. Bounded, whatever it does.
remote() {
    timeout -k 5 "$(patience 120)" env "${REMOTE[@]}" "$@"
}

# In the background, as a job that teardown ends. Its pid: $!
remote_job() { # NAME CMD...: stdout to $T/NAME.out, stderr to $T/NAME.err
    local name=$1
    shift
    # bats waits for whoever holds its fd 3. No timeout in between: the pid is the program's.
    env "${REMOTE[@]}" "$@" >"$T/$name.out" 2>"$T/$name.err" </dev/null 3>&- &
    JOB=$!
    JOBS_STARTED+=("$JOB")
}

# The same for a program that reads lines: what is written to descriptor TALK.
remote_talk() { # NAME CMD...
    local name=$1
    shift
    rm -f "$T/$name.in"
    mkfifo "$T/$name.in"
    # Both ways: one that ends at once leaves us nothing to wait for.
    exec {TALK}<>"$T/$name.in"
    env "${REMOTE[@]}" "$@" <"$T/$name.in" >"$T/$name.out" 2>"$T/$name.err" {TALK}>&- 3>&- &
    JOB=$!
    JOBS_STARTED+=("$JOB")
}

# A client named hold, which computes once for each line that it is told.
hold_start() {
    remote_talk hold "$EXERCISE" hold
    wait_until 60 grep -q ready "$T/hold.out"
}

# What the exercise has printed: $T/exercise.out and .err.
exercise() { # COMMAND [DEVICE]
    remote "$EXERCISE" "$@" >"$T/exercise.out" 2>"$T/exercise.err"
}

# Programs one after the other, the last of them killed; OTHERS workers are other clients'.
many_runs() { # OTHERS
    local i
    for ((i = 0; i < 20; i++)); do
        remote "$EXERCISE" compute 2>/dev/null
    done
    remote llama-bench -m "$MODEL" -dev APIR0 -t 2 -p 8 -n 2 -r 1 >/dev/null 2>&1
    remote_job killed llama-bench -m "$MODEL" -dev APIR0 -t 2 -p 0 -n 64 -r 1000
    wait_until 20 n_workers_is $(($1 + 1))
    kill -KILL "$JOB"
    wait_until 10 n_workers_is "$1"
    wait_until 10 no_zombie_below
}

# ---- processes below ours -------------------------------------------------------------

# Every descendant of a process, by id.
below() {
    [[ -n $1 ]] || return 0
    ps -eo pid=,ppid= | awk -v root="$1" '
        { parent[$1] = $2 }
        END {
            for (p in parent) {
                for (q = p; q in parent && q != root; q = parent[q]) ;
                if (q == root && p != root) print p
            }
        }' | sort -n
}

# server_pids COMM [STATE]: those below our server of that (15 characters long) name.
server_pids() {
    local pid name state
    for pid in $(below "$VTEST_PID"); do
        read -r name state < <(ps -o comm=,state= -p "$pid") || continue
        [[ $name == "$1" && $state == ${2:-[!Z]} ]] && echo "$pid"
    done
    return 0
}

workers() { server_pids apir-worker; }
# Ready, and nobody's yet (backend/server/ahead/spare.h).
spares() { server_pids apir-spare; }
n_spares_is() { [[ $(spares | wc -l) -eq $1 ]]; }
# Over unix it is no child of a VMM's but what we have started.
render_server() {
    if [[ $VTEST_TRANSPORT == unix ]]; then
        [[ $(ps -o comm=,state= -p "$VTEST_PID") == apir-render-ser\ [!Z] ]] && echo "$VTEST_PID"
    else
        server_pids apir-render-ser
    fi
}
no_zombie_below() { [[ -z $(server_pids apir-worker Z) ]]; }
n_fds() { find "/proc/$1/fd" -mindepth 1 -maxdepth 1 | wc -l; }
n_workers_is() { [[ $(workers | wc -l) -eq $1 ]]; }

# Not running any more: gone, or waiting for its parent.
gone() {
    local state
    state=$(ps -o state= -p "$1") || return 0
    [[ $state == Z ]]
}

# The processor time of a process, in ticks.
cpu_ticks() {
    awk '{ sub(/^.*\) /, ""); print $12 + $13 }' "/proc/$1/stat" 2>/dev/null || echo 0
}

# True once a process has computed for a while more than it had when first asked.
computes() { # PID TICKS_BEFORE
    (($(cpu_ticks "$1") >= $2 + 20))
}

# The one worker of the job just started, once it is in the middle of its work.
busy_worker() { # WORKERS_BEFORE...: sets WORKER
    WORKER=
    wait_until 60 worker_is_new "$@" || { echo "no worker was started"; return 1; }
}
worker_is_new() { # WORKERS_BEFORE...: sets WORKER to one that was not there
    local known=" $* " pid
    for pid in $(workers); do
        [[ $known == *" $pid "* ]] || WORKER=$pid
    done
    [[ -n $WORKER ]]
}

# ---- models ----------------------------------------------------------------------------

# model NAME ARGS...: sets MODEL. Written anew only if the writer has changed, and by one file's
# tests while the others wait for it.
model() {
    MODEL=build/models/system-$1.gguf
    shift
    mkdir -p build/models
    {
        flock 9
        if [[ ! -e $MODEL || $OUT/tests/lib/models/gguf-write -nt $MODEL ]]; then
            "$OUT/tests/lib/models/gguf-write" "$@" --output "$MODEL" 9>&-
        fi
    } 9>"$MODEL.lock"
}
model_small() { model 3m --arch llama --preset 3M; }
model_other() { model qwen2 --arch qwen2 --preset 3M --type q8_0 --seed 7; }

# Greedy and on one kernel each: what the native run and the remoted one have in common.
GREEDY=(-t 1 -c 512 -n 48 --temp 0 --seed 1 -no-cnv --no-warmup --simple-io -fa on
    --prompt "The quick brown fox jumps over")

# greedy CMD...: what such a run of llama-completion says; its stderr to $T/greedy.err. It does not
# wait for its printing thread: on a busy machine the end of the text is lost, and its last words too.
# Such a run is made again, and the test's output says so.
greedy() {
    local n
    for n in {1..30}; do
        "$@" >"$T/greedy.out" 2>"$T/greedy.err" || return
        if grep -q 'common_perf_print: .*total time' "$T/greedy.err"; then
            [[ $n -eq 1 ]] || echo "# ${BATS_TEST_NAME-greedy}: llama-completion lost its end $((n - 1)) times" >&3
            cat "$T/greedy.out"
            return
        fi
    done
    echo "llama-completion has lost the end of its text in all of $n runs" >&2
    return 1
}

# A model's text over this server is that of a native run.
text_as_natively() {
    local native remoted
    native=$(greedy "${NATIVE[@]}" llama-completion -m "$MODEL" --device none "${GREEDY[@]}")
    remoted=$(greedy remote llama-completion -m "$MODEL" --device APIR0 -ngl 99 "${GREEDY[@]}")
    [[ ${#native} -gt 60 && $native == "$remoted" ]]
}

# Devices, graphs, copies and a model's text.
all_as_natively() {
    run -0 --separate-stderr remote "$EXERCISE" list
    [[ $output == *APIR0* ]]
    exercise compute
    exercise transfers
    text_as_natively
}

# The exit code of a command, and a part of what it says: on any output, or on stderr.
gives() { # CODE TEXT CMD...
    run "-$1" "${@:3}"
    [[ $output == *"$2"* ]]
}
complains() { # CODE TEXT CMD...
    run "-$1" --separate-stderr "${@:3}"
    [[ $stderr == *"$2"* ]]
}

# `! cmd` never fails a bats test: errexit does not look at it.
refute() { ! "$@"; }
