#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# What a worker cannot do that a guest has taken over: a test for each rule of its sandbox. The
# worker is a real one below stock virglrenderer; what tries to get out of it is the backend that
# its ggml has loaded (tests/hostile/sandbox/escape.c).

load system.bash

setup() {
    common_setup
    BACKENDS=$(realpath "$OUT/tests/hostile/sandbox/backends")
    WITHOUT=$(realpath "$OUT/tests/hostile/sandbox/without")
    escape_config
}

escape_config() { # [MEMBERS]: of the worker's configuration
    VTEST_CONFIG="{\"ggml_backends_dir\": \"$BACKENDS\", \"devices\": [\"STAMP0\"], \"threads\": 1${1:+, $1}}"
}

# The client itself is not happy: this backend computes nothing.
client() { remote "$EXERCISE" compute >"$T/client.out" 2>"$T/client.err" || :; }

context_ended() { grep -q 'context [0-9]* destroyed' "$VTEST_LOG"; } # what its worker has printed comes before

# attempts [VARIABLE=VALUE]...: one worker that tries what these name
attempts() {
    VTEST_ENV=(APIR_LOG=info "$@")
    server_start
    client
    wait_until 20 context_ended
    grep 'escape: \|sandbox: ' "$VTEST_LOG"
}

# What workers print, without their names.
escapes() { sed -nE 's/^apir: (worker of context [0-9]+|first worker): (escape: )/\2/p' "$VTEST_LOG"; }

# expect NAME=RESULT...: what the worker's log says, soon, and nothing more of these names.
is_said() { [[ $(escapes | grep "^escape: ${1%%=*} ") == "escape: ${1%%=*} ${1#*=}" ]]; }
expect() {
    local want bad=0
    for want; do
        if ! wait_until 1 is_said "$want"; then
            echo "expected: $want; got: $(escapes | grep "^escape: ${want%%=*} ")"
            bad=1
        fi
    done
    return $bad
}

# names NAME=RESULT...: NAME,NAME...
names() {
    local list
    printf -v list '%s,' "${@%%=*}"
    echo "${list%,}"
}

# A server in whose place COMMAND... runs, with its arguments after it.
server_below() {
    printf '#!/bin/bash\n%s\nexec %s virgl_test_server "$@"\n' "${BELOW_FIRST-}" "$*" >"$T/server"
    chmod +x "$T/server"
    VTEST_SERVER=$T/server
}

# plain_user: the server below is not root
plain_user() { # [COMMAND...]
    [[ $(id -u) -eq 0 ]] || { server_below "$@"; return; }
    # The socket's folder is the second last argument's.
    BELOW_FIRST='for a; do [[ $a != /*/socket ]] || chown -R 65534 "${a%/socket}"; done'
    server_below setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all "$@"
}

has_namespaces() { # where the machine forbids them, the log says so, and so do we
    grep -q 'sandbox: namespaces' "$VTEST_LOG" && return
    refute unshare -U true
    [[ -z ${CI-} ]]
    skip "this machine allows no user namespaces"
}

# hold: a client that has computed and stays; its worker is WORKER.
hold() {
    hold_start
    echo go >&"$TALK"
    wait_until 60 grep -q "right 1" "$T/hold.out"
    wait_until 10 n_workers_is 1
    WORKER=$(workers)
}

# listen NAME: somebody of the host's waits on this socket; @NAME: an abstract one
listen() {
    perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) && bind(S, pack_sockaddr_un($ARGV[0] =~ s/^@/\0/r))
        && listen(S, 8) or die "$!"; $| = 1; print "listening\n"; sleep' "$1" >"$T/listen.out" 3>&- &
    JOBS_STARTED+=("$!")
    wait_until 20 grep -q listening "$T/listen.out"
}

# ---- what the kernel says of a worker ------------------------------------------------

@test "sandbox: every thread has no capability, no new privileges, and the filters" {
    VTEST_CONFIG='{"threads": 2, "devices": ["Vulkan0"]}'
    VTEST_ENV=(APIR_LOG=info "${VULKAN[@]}" LP_NUM_THREADS=3)
    server_start
    hold
    local task n=0
    for task in /proc/"$WORKER"/task/*/status; do
        n=$((n + 1))
        grep -E '^(Name|Cap|NoNewPrivs|Seccomp|SigIgn)' "$task"
        [[ $(grep -cE '^Cap(Inh|Prm|Eff|Bnd|Amb):\s0000000000000000$' "$task") -eq 5 ]]
        grep -Eq '^NoNewPrivs:\s1$' "$task"
        grep -Eq '^Seccomp:\s2$' "$task"
        grep -Eq '^Seccomp_filters:\s2$' "$task"
        # SIGPIPE: whoever reads the log may end.
        [[ $((0x$(awk '$1 == "SigIgn:" { print $2 }' "$task") >> 12 & 1)) -eq 1 ]]
    done
    # lavapipe's own are among them.
    [[ $n -ge 4 ]]
}

@test "sandbox: namespaces of its own, and a network without anything" {
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"]}'
    VTEST_ENV=(APIR_LOG=info)
    server_start
    hold
    has_namespaces
    local server kind
    server=$(render_server)
    for kind in user net ipc; do
        [[ $(readlink "/proc/$WORKER/ns/$kind") != "$(readlink "/proc/$server/ns/$kind")" ]]
    done
    [[ $(awk -F : 'NR > 2 { print $1 }' "/proc/$WORKER/net/dev" | tr -d ' ') == lo ]]
    # Nothing is reached by it either: lo is down, so it has no address.
    refute grep -q '127\.0\.0\.1' "/proc/$WORKER/net/fib_trie"
    # The same user as before: which files are whose has not changed.
    [[ $(awk '{ print $1, $2, $3 }' "/proc/$WORKER/uid_map") == "$(id -u) $(id -u) 1" ]]
}

# ---- stage 1: what holds while drivers are loaded, and where there is no seccomp -----

@test "sandbox: before the filter: files, programs, processes, network, limits" {
    local want=(
        library=done own_status=done sys_cpu=done thread_name=done descriptors=EMFILE
        # files: root may read all of these, but for Landlock
        shadow=EACCES passwd=EACCES root=EACCES other_status=EACCES read=EACCES terminal=EACCES
        write_tmp=EACCES write_shm=EACCES write_usr=EACCES write=EACCES truncate=EACCES sys=EACCES
        device_request=EACCES
        # a program in a folder that may be read
        exec=EACCES exec_fd=EACCES
        tcp=EACCES tcp_bind=EACCES
        kill=EPERM ptrace=EPERM seize=EPERM vm_read=EPERM vm_write=EPERM
        # limits and names need a capability
        core=EPERM sethostname=EPERM
        # what the kernel counts per user
        timers=EAGAIN queue=EMFILE)
    echo secret >"$T/secret"
    # Nor does a path in the environment open everything.
    attempts "APIR_ESCAPE_EARLY=$(names "${want[@]}")" "APIR_ESCAPE_PATH=$T/secret" APIR_ESCAPE_PORT=9 \
        LD_LIBRARY_PATH=/
    expect "${want[@]}"
    [[ $(<"$T/secret") == secret ]]
    [[ $(sed -n 's/^escape: \([0-9]*\) is the last descriptor$/\1/p' <(escapes)) -lt 512 ]]
    [[ $(sed -n 's/^escape: \([0-9]*\) timers$/\1/p' <(escapes)) -le 64 ]]
}

# A /dev of its own, where there are a GPU's nodes; what is behind them does not matter.
@test "sandbox: before the filter: of a GPU's nodes the one that computes, and not the screen's" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip "needs root, for a /dev of its own"; }
    local want=(dri=done dri_links=done dri_render=done dri_card=EACCES dri_card_link=EACCES)
    cat >"$T/dev" <<'EOT'
#!/bin/bash
set -e
mkdir -p "$1"
for node in null zero full random urandom; do
    : >"$1/$node"
    mount --bind "/dev/$node" "$1/$node"
done
mkdir -p "$1/dri/by-path"
: >"$1/dri/card0"
: >"$1/dri/renderD128"
ln -sfn ../card0 "$1/dri/by-path/pci-0000:00:02.0-card"
ln -sfn ../renderD128 "$1/dri/by-path/pci-0000:00:02.0-render"
mount --rbind "$1" /dev
exec "${@:2}"
EOT
    chmod +x "$T/dev"
    server_below unshare --mount --propagation private "$T/dev" "$T/nodes"
    attempts "APIR_ESCAPE_EARLY=$(names "${want[@]}")"
    expect "${want[@]}"
}

@test "sandbox: before the filter: making links, folders' entries" {
    local want=(symlink=EACCES create=EACCES)
    attempts "APIR_ESCAPE_EARLY=$(names "${want[@]}")" "APIR_ESCAPE_PATH=$T/new"
    expect "${want[@]}"
    [[ ! -e $T/new && ! -L $T/new ]]
}

@test "sandbox: before the filter: sockets of the host, through namespaces or Landlock" {
    local want=(udp abstract) name=apir-sandbox-$BASHPID
    listen "@$name"
    attempts "APIR_ESCAPE_EARLY=$(names "${want[@]}")" APIR_ESCAPE_PORT=9 "APIR_ESCAPE_SOCKET=$name"
    has_namespaces
    grep -q 'Landlock [6-9]\|Landlock [1-9][0-9]' "$VTEST_LOG" || { [[ -z ${CI-} ]]; skip "an old Landlock"; }
    local landlock=no
    refute grep -q 'Landlock [1-9][0-9]' "$VTEST_LOG" || landlock=yes # it looks at UDP since 10
    [[ $landlock == yes ]] || expect udp=ENETUNREACH
    # Landlock looks at it only if it is there.
    expect abstract=ECONNREFUSED
    vtest_stop
    # The same without namespaces: it is Landlock's.
    server_below "$WITHOUT unshare=1"
    attempts "APIR_ESCAPE_EARLY=$(names "${want[@]}")" APIR_ESCAPE_PORT=9 "APIR_ESCAPE_SOCKET=$name"
    expect abstract=EPERM
    if [[ $landlock == yes ]]; then
        expect udp=EACCES
    else
        expect udp=done # until the filter comes
    fi
}

@test "sandbox: before the filter: no socket with a path, since Landlock 9" {
    listen "$T/s"
    attempts APIR_ESCAPE_EARLY=unix "APIR_ESCAPE_SOCKET=$T/s"
    # The filter ends it before the guest's first message: the test of system calls looks at that.
    ! grep -q 'Landlock [1-8],' "$VTEST_LOG" || skip "this kernel's Landlock has no rule for it"
    expect unix=EACCES
}

# ---- stage 2 -----------------------------------------------------------------------

@test "sandbox: system calls that are not there, and those that drivers need" {
    local want=(
        # needed
        thread=done kill_self=done kcmp_self=done library=done own_status=done sys_cpu=done
        request_other=ENOTTY set_flags=done pipe=done map=done memfd=done
        # processes
        fork=ENOSYS clone=ENOSYS clone3=ENOSYS clone_namespace=ENOSYS
        kill=ENOSYS tgkill=ENOSYS tkill=ENOSYS pidfd=ENOSYS limits=ENOSYS affinity=ENOSYS kcmp=ENOSYS
        set_owner=ENOSYS set_owner_wide=ENOSYS set_signal=ENOSYS set_async=ENOSYS outlive=ENOSYS dumpable=ENOSYS
        # devices that are not GPUs
        request_owner=EPERM request_group=EPERM request_async=EPERM request_type=EPERM
        request_type_wide=EPERM request_paste=EPERM request_discipline=EPERM request_take=EPERM
        request_console=EPERM request_foreground=EPERM
        # sockets
        tcp=ENOSYS udp=ENOSYS tcp_bind=ENOSYS unix=ENOSYS abstract=ENOSYS netlink=ENOSYS
        pair=ENOSYS pair_datagram=ENOSYS send=ENOSYS shmget=ENOSYS shutdown=ENOSYS
        # what others have of the machine, or of this user's
        watches=ENOSYS watch=ENOSYS pipe_of_notifications=ENOSYS map_huge=ENOSYS memfd_huge=ENOSYS
        timers=EAGAIN queue=ENOSYS
        # locks on what may be read
        flock=ENOSYS lock=ENOSYS
        # what Landlock does not look at
        chmod=ENOSYS truncate=ENOSYS symlink=ENOSYS name_to_handle_at=ENOSYS inotify_init1=ENOSYS
        # and what it does
        shadow=EACCES passwd=EACCES root=EACCES read=EACCES write=EACCES other_status=EACCES
        write_tmp=EACCES write_shm=EACCES write_usr=EACCES terminal=EACCES
        landlock_create_ruleset=ENOSYS personality=ENOSYS)
    echo secret >"$T/secret"
    # Where there is no shader cache.
    attempts "APIR_ESCAPE=$(names "${want[@]}")" "APIR_ESCAPE_PATH=$T/secret" APIR_ESCAPE_PORT=9 \
        "APIR_ESCAPE_SOCKET=$VTEST_SOCKET" "HOME=$T/none"
    expect "${want[@]}"
}

# Each of these ends its worker, and no other.
kills() { # NAME...
    local name before other ended bad=0
    escape_config "\"sandbox_read\": [\"$T\"]"
    VTEST_ENV=(APIR_LOG=info "APIR_ESCAPE=@$T/what")
    echo own_status >"$T/what"
    server_start
    model_small
    remote_job bench llama-bench -m "$MODEL" -dev APIR0 -t 1 -p 0 -n 16 -r 1000000
    other=$JOB
    busy_worker
    # It has read what to try, and goes on.
    wait_until 20 grep -q 'escape: own_status done' "$VTEST_LOG"
    for name; do
        echo "$name" >"$T/what"
        before=$(grep -c 'killed by signal 31' "$VTEST_LOG") || :
        client
        ended=$(grep -c 'killed by signal 31 (its sandbox forbids a system call)' "$VTEST_LOG") || :
        # Said twice: by the server, and to the guest.
        if [[ $ended -le $before ]]; then
            echo "expected: an end by $name; got: $(escapes | grep "^escape: $name ")"
            bad=1
        fi
    done
    [[ $bad -eq 0 ]]
    kill -0 "$WORKER"
    kill -0 "$other"
}

@test "sandbox: ends a worker that starts programs, looks into others, or takes another's rights" {
    kills exec exec_fd ptrace seize vm_read vm_write pidfd_getfd pidfd_signal setuid setgid setreuid \
        setregid setresuid setresgid setfsuid setfsgid setgroups capset
}

@test "sandbox: ends a worker that makes namespaces or mounts" {
    kills unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount \
        fspick mount_setattr
}

@test "sandbox: ends a worker that reaches for the machine, or for calls with a history" {
    local more=()
    [[ $(uname -m) != x86_64 ]] || more=(modify_ldt iopl ioperm kexec_file_load x32)
    kills bpf io_uring_setup io_uring_enter io_uring_register userfaultfd keyctl add_key request_key \
        vmsplice perf_event_open kexec_load init_module finit_module delete_module reboot swapon swapoff \
        acct quotactl sethostname setdomainname settimeofday clock_settime open_by_handle_at "${more[@]}"
}

# ---- as another user than root -------------------------------------------------------

@test "sandbox: of a plain user: it computes, has so many threads, and is not looked into" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip "needs root, to be another user"; }
    plain_user
    VTEST_CONFIG='{"threads": 2, "devices": ["CPU"], "sandbox": "required"}'
    VTEST_ENV=(APIR_LOG=info)
    server_start
    hold
    [[ $(awk '$1 == "Uid:" { print $2, $3, $4, $5 }' "/proc/$WORKER/status") == "65534 65534 65534 65534" ]]
    # Its own user could, were it dumpable.
    run -1 setpriv --reuid=65534 --regid=65534 --clear-groups cat "/proc/$WORKER/environ"
    [[ $output == *"Permission denied"* ]]
    run -0 setpriv --reuid=65534 --regid=65534 --clear-groups cat "/proc/$(render_server)/environ"
    has_namespaces
    vtest_stop

    escape_config
    attempts APIR_ESCAPE=thread_name,own_score,threads
    expect thread_name=done own_score=EACCES threads=EAGAIN
    local n
    n=$(sed -n 's/^escape: \([0-9]*\) threads$/\1/p' <(escapes))
    # As many as drivers may have, and two pools of one for each processor.
    local most=$((256 + 2 * $(getconf _NPROCESSORS_ONLN)))
    [[ $n -gt $((most - 100)) && $n -lt $most ]]
}

# ---- shader caches -------------------------------------------------------------------

@test "sandbox: a worker reads the user's shader cache; what it adds is its own" {
    local cache=$T/cache/mesa_shader_cache i
    mkdir -p "$cache"
    echo seeded >"$cache/old"
    for i in 1 2; do
        attempts "XDG_CACHE_HOME=$T/cache" "APIR_ESCAPE_EARLY=create" APIR_ESCAPE=write,flock,lock \
            "APIR_ESCAPE_PATH=$cache/new"
        has_namespaces
        # The second worker does not see what the first has left. Drivers lock their caches.
        expect create=done write=done flock=done lock=done
        [[ $(ls "$cache") == old ]]
        vtest_stop
    done
    attempts "XDG_CACHE_HOME=$T/cache" APIR_ESCAPE=read,write "APIR_ESCAPE_PATH=$cache/old"
    expect read=done write=done
    [[ $(<"$cache/old") == seeded ]]
    vtest_stop
    # Without namespaces there is no layer, and so no cache.
    server_below "$WITHOUT unshare=1"
    attempts "XDG_CACHE_HOME=$T/cache" APIR_ESCAPE_EARLY=create,read "APIR_ESCAPE_PATH=$cache/new"
    expect create=EACCES
    [[ $(ls "$cache") == old ]]
}

# Whether it has a core only while nobody else wants it.
is_idle() { chrt -p "$1" | grep -q SCHED_IDLE; } # PID

# bats test_tags=long
@test "sandbox: a worker without a context fills the cache that others read; the server starts it" {
    vulkan
    mkdir "$T/cache"
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"], "spare_workers": 0, "shader_seconds": 12}'
    VTEST_ENV+=(APIR_LOG=info "XDG_CACHE_HOME=$T/cache")
    printf '%s\n' "$VTEST_CONFIG" >"$T/shaders.json"
    # Again where others have wanted the cores for all of its time.
    local try
    for try in {1..20}; do
        env "${VTEST_ENV[@]}" "$OUT/backend/apir-worker" --fill-shaders --all --config "$T/shaders.json" >"$T/said" 2>&1 &
        filling=$!
        wait_until 5 is_idle "$filling"
        [[ $((0x$(awk '$1 == "SigIgn:" { print $2 }' "/proc/$filling/status") >> 12 & 1)) -eq 1 ]] # SIGPIPE
        wait "$filling"
        ! grep -qE 'Vulkan0 .*: computed [1-9][0-9]* graphs' "$T/said" || break
    done
    grep -E 'Vulkan0 .*: computed [1-9][0-9]* graphs' "$T/said"
    [[ -n $(find "$T/cache" -type f -size +0) ]]
    find "$T/cache" -type f | sort >"$T/before"
    server_start
    hold
    has_namespaces
    wait_until 20 grep -q '[1-9] shader caches' "$VTEST_LOG"
    # By itself the server spares a driver in software that work.
    wait_until 20 grep -q 'Vulkan0 .*: left out' "$VTEST_LOG"
    find "$T/cache" -type f | sort | diff "$T/before" -
}

# What keeps workers from the caches that it reads is Landlock, and nothing else does for all of them.
@test "sandbox: without Landlock nobody fills a shader cache" {
    vulkan
    mkdir "$T/cache"
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"], "spare_workers": 0, "shader_seconds": 5}'
    VTEST_ENV+=(APIR_LOG=info "XDG_CACHE_HOME=$T/cache")
    printf '%s\n' "$VTEST_CONFIG" >"$T/shaders.json"
    run -0 env "${VTEST_ENV[@]}" "$WITHOUT" landlock_create_ruleset \
        "$OUT/backend/apir-worker" --fill-shaders --all --config "$T/shaders.json"
    [[ $output == *"is not filled"*"no Landlock"* && $output != *computed* ]]
    [[ -z $(find "$T/cache" -type f) ]]
    # The server that starts it has nothing to complain of.
    server_below "$WITHOUT landlock_create_ruleset"
    server_start
    hold
    wait_until 20 grep -q 'is not filled.*no Landlock' "$VTEST_LOG"
    refute grep -q 'filling the shader cache' "$VTEST_LOG"
}

@test "sandbox: nobody fills a shader cache that workers share" {
    vulkan
    mkdir "$T/cache"
    printf '{"devices": ["Vulkan0"], "shader_seconds": 5, "sandbox_write": ["%s"]}\n' "$T/cache" >"$T/shaders.json"
    run -0 env "${VTEST_ENV[@]}" APIR_LOG=info "XDG_CACHE_HOME=$T/cache" "$OUT/backend/apir-worker" --fill-shaders \
        --all --config "$T/shaders.json"
    [[ $output == *"is not filled"*sandbox_write* && $output != *computed* ]]
    [[ -z $(find "$T/cache" -type f) ]]
}

@test "sandbox: without Landlock a worker has no shader cache, be there namespaces or not" {
    local without
    vulkan
    VTEST_CONFIG='{"threads": 1, "devices": ["Vulkan0"]}'
    VTEST_ENV+=(APIR_LOG=info "XDG_CACHE_HOME=$T/cache" "HOME=$T/home")
    mkdir -p "$T/cache/mesa_shader_cache" "$T/home"
    for without in landlock_create_ruleset landlock_create_ruleset,unshare=1; do
        server_below "$WITHOUT $without"
        server_start
        hold
        wait_until 20 grep 'sandbox: .*no Landlock' "$VTEST_LOG"
        refute grep 'shader caches' "$VTEST_LOG"
        vtest_stop
        [[ -z $(find "$T/cache" "$T/home" -type f) ]]
    done
}

@test "sandbox: what a worker adds to a shader cache has a limit" {
    mkdir -p "$T/cache/mesa_shader_cache"
    VTEST_CONFIG='{"threads": 1}' VTEST_ENV=(APIR_LOG=info "XDG_CACHE_HOME=$T/cache")
    server_start
    hold
    has_namespaces
    grep " $T/cache/mesa_shader_cache .* - tmpfs apir " "/proc/$WORKER/mountinfo" | tee "$T/mount"
    grep -q '[ ,]size=262144k,nr_inodes=65536,' "$T/mount"
}

@test "sandbox: a shader cache in sandbox_write is shared" {
    local cache=$T/cache/mesa_shader_cache
    mkdir -p "$cache"
    escape_config "\"sandbox_write\": [\"$T/cache/\"]"
    attempts "XDG_CACHE_HOME=$T/cache" APIR_ESCAPE=create "APIR_ESCAPE_PATH=$cache/new"
    expect create=done
    [[ $(<"$cache/new") == poison ]]
}

@test "sandbox: a shader cache that others may write is left alone" {
    local cache=$T/cache/mesa_shader_cache
    mkdir -p "$cache"
    echo seeded >"$cache/old"
    chmod 0777 "$cache"
    attempts "XDG_CACHE_HOME=$T/cache" APIR_ESCAPE=read "APIR_ESCAPE_PATH=$cache/old"
    expect read=EACCES
}

# ---- configuration, and kernels that have less -----------------------------------------

@test "sandbox: sandbox_read and sandbox_write give what they name, and no more" {
    mkdir "$T/r" "$T/w"
    echo old >"$T/r/file"
    escape_config "\"sandbox_read\": [\"$T/r\"]"
    attempts APIR_ESCAPE=read,write "APIR_ESCAPE_PATH=$T/r/file"
    expect read=done write=EACCES
    vtest_stop
    escape_config "\"sandbox_write\": [\"$T/w\"]"
    attempts APIR_ESCAPE=create,read "APIR_ESCAPE_PATH=$T/w/file"
    expect create=done read=done
    [[ $(<"$T/w/file") == poison ]]
}

kernel_lacks() { # CALL[=ERRNO] WHAT [PATTERN]: what is said where the sandbox is required; without: nothing
    plain_user "$WITHOUT $1"
    VTEST_ENV=(APIR_LOG=info)
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"], "sandbox": "auto"}'
    server_start
    run -0 remote "$EXERCISE" compute
    wait_until 20 grep "sandbox: .*$2" "$VTEST_LOG"
    vtest_stop
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"], "sandbox": "required"}'
    server_start
    run remote "$EXERCISE" compute
    if [[ -n ${3-} ]]; then
        [[ $status -ne 0 ]]
        grep -q "$3" <<<"$output"
    else
        [[ $status -eq 0 ]]
    fi
}

@test "sandbox: as root: said, and refused where it is required" {
    [[ $(id -u) -eq 0 ]] || { [[ -z ${CI-} ]]; skip "needs root"; }
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"]}'
    server_start
    run -0 remote "$EXERCISE" compute
    grep 'runs as root' "$VTEST_LOG"
    vtest_stop
    VTEST_CONFIG='{"threads": 1, "devices": ["CPU"], "sandbox": "required"}' VTEST_ENV=(APIR_LOG=info)
    server_start
    run --separate-stderr remote "$EXERCISE" compute
    [[ $status -ne 0 ]]
    wait_until 20 context_ended
    grep -q 'a worker that runs as root' "$VTEST_LOG"
    # The program is told the same, whether it has its memory by then or not.
    [[ $stderr == *"is lost:"*"runs as root"* ]]
}

@test "sandbox: without Landlock: said, and refused where it is required" {
    kernel_lacks landlock_create_ruleset 'no Landlock' 'this kernel has no Landlock'
}

@test "sandbox: without seccomp: said, and refused where it is required" {
    kernel_lacks seccomp 'no seccomp' 'seccomp'
}

@test "sandbox: without namespaces: said, and good enough where the rest is there" {
    kernel_lacks unshare=1 'no namespaces (Operation not permitted)'
}
