# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2034,SC2154 # lib.sh and row.sh share variables
#
# What programs see that an engine starts later (exec, health checks), in containers that change
# their folders, and in images that are made of them. What they see becomes the table of docs/engines.md
# (tests/vm/engines/seen.awk).

BACKENDS_DIR=/usr/lib/x86_64-linux-gnu/ggml/backends0
AGAIN='`restart` after another `apir cdi generate`'

# in_place layer|volume: where llama.cpp is, with the options for that in PLACE. A new volume has what the
# image has there. LATER is what an exec sees.
in_place() {
    case $1 in
    layer) WHERE='a layer of the image' LATER=given PLACE=() ;;
    volume)
        WHERE='a volume' LATER=cpu PLACE=(-v "ggml-lib:${BACKENDS_DIR%/ggml/*}" -v ggml-bin:/usr/bin)
        at_end "${ENGINE:-podman} volume rm -f ggml-lib ggml-bin >/dev/null"
        ;;
    esac
}

# saw run|exec given|cpu|no: a program there, started as HOW says, has seen this.
declare -A SAW=([given]='what was given' [cpu]='its CPU, without a word' [no]='it does not start')
saw() { printf '%s\t%s\t%s\t%s\t%s\n' "$WHERE" "$HOW" "$1" "${SAW[$2]}" "$NAME" >>/mnt/share/seen; }

# sees run|exec given|cpu: what BENCH_ANY has printed last is that.
sees() {
    case $2 in
    given) apir_alone ;;
    cpu)
        computed_on CPU
        ! grep -E 'APIR[0-9]|^apir:' "$last/err" || die 'it is not silent'
        ;;
    esac
    saw "$1" "$2"
}

# A container whose first program computes and then waits, with what it has printed in files that are named after
# the time of its start: a container that starts again has the old ones, too.
STARTED='at=$(cut -d " " -f 22 /proc/1/stat)'
first_program() { echo "$STARTED; ($BENCH_ANY) >/tmp/out.\$at 2>/tmp/err.\$at; touch /tmp/done.\$at; exec sleep 600"; }
REMOVE=(podman rm --ignore -f -t 0)
engine() { # NAME: whose containers these are
    ENGINE=$1
    case $1 in
    podman) REMOVE=(podman rm --ignore -f -t 0) ;;
    docker) REMOVE=(docker rm -f) ;;
    esac
}
stay() { # NAME OPTION... IMAGE
    at_end "${REMOVE[*]} $1 >/dev/null 2>&1"
    "${LIMIT[@]}" "$ENGINE" run -d --name "$1" --network=host -v /mnt/models:/models:ro "${PLACE[@]}" "${@:2}" \
        sh -c "$(first_program)" </dev/null
}
in_box() { "${LIMIT[@]}" "$ENGINE" exec "$@"; } # NAME COMMAND...

# looks NAME RUN EXEC: what its first program and one of exec see.
looks() {
    WAIT_TENTHS=900 wait_for in_box "$1" sh -c "$STARTED"'; test -e /tmp/done.$at'
    observe in_box "$1" sh -c "$STARTED"'; cat /tmp/err.$at >&2; cat /tmp/out.$at'
    sees run "$2"
    observe in_box "$1" sh -c "$BENCH_ANY"
    sees exec "$3"
}

later() { # ENGINE
    local place
    engine "$1"
    at_end 'apir cdi generate'
    for place in layer volume; do
        in_place $place
        HOW='`run`'
        stay box "${DEVICE[@]}" localhost/llama
        looks box given "$LATER"
        HOW=$AGAIN
        jq '.devices[].containerEdits.env += ["APIR_ROW=again"]' /etc/cdi/apir.json >"$work/again.json"
        cp "$work/again.json" /etc/cdi/apir.json
        "${LIMIT[@]}" "$ENGINE" restart -t 0 box
        in_box box cat /proc/1/environ | grep -zx APIR_ROW=again
        looks box given "$LATER"
        apir cdi generate
        "${REMOVE[@]}" box
    done
}
row podman-later - 'podman: run, exec and restart, llama.cpp in a layer and on a volume' 400
row_podman_later() { later podman; }
row docker-later docker 'docker: the same' 400
row_docker_later() { later docker; }

row ctr-later containerd 'ctr: run and task exec, which has the variables, llama.cpp in a layer and on a volume' 400
row_ctr_later() {
    local place
    HOW='`ctr run`, `ctr task exec`'
    # shellcheck disable=SC2329 # looks calls it
    in_box() { "${LIMIT[@]}" ctr task exec --exec-id "x$RANDOM" "$@"; }
    for place in layer volume; do
        in_place $place
        at_end "ctr task kill -s KILL $place; ctr task delete -f $place; ctr container rm $place"
        [[ $place == layer ]] || mounts_of_volumes
        "${LIMIT[@]}" ctr run -d --mount type=bind,src=/mnt/models,dst=/models,options=rbind:ro "${PLACE[@]}" \
            "${DEVICE[@]}" "$IMAGE" $place sh -c "$(first_program)" </dev/null
        looks $place given given
    done
}
# PLACE as mounts of folders.
mounts_of_volumes() {
    local volume at
    "${LIMIT[@]}" podman run --rm --network=host "${PLACE[@]}" localhost/llama true </dev/null
    PLACE=()
    for volume in "ggml-lib:${BACKENDS_DIR%/ggml/*}" ggml-bin:/usr/bin; do
        at=$(podman volume inspect --format '{{.Mountpoint}}' "${volume%%:*}")
        PLACE+=(--mount "type=bind,src=$at,dst=${volume#*:},options=rbind")
    done
}

# What entry points do to a folder of their image, and the device then.
entry_points() { # CMD...: up to the image
    local entry bench=$BENCH
    for entry in 'chown -R 123:123 $F' 'chmod -R u=rwX,go=rX $F' 'find $F ! -user 123 -exec chown 123 {} +' \
        'cp -a $F /tmp/copy && rm -rf $F && mv /tmp/copy $F' 'for f in $F/*; do mv $f $f.x && mv $f.x $f; done'; do
        echo "$entry"
        BENCH="F=$BACKENDS_DIR; $entry && $bench" computes "$@"
    done
}
row podman-entry-points - 'podman: chown -R, chmod -R, find -exec chown, rm -rf, mv over the folder of the plug-in' 600
row_podman_entry_points() {
    entry_points run_podman "${DEVICE[@]}" localhost/llama
    entry_points run_podman --userns=auto "${DEVICE[@]}" localhost/llama
}
row docker-entry-points docker 'docker: the same' 400
row_docker_entry_points() { entry_points run_docker "${DEVICE[@]}" localhost/llama; }
row rootless-entry-points rootless 'podman rootless: the same' 400
row_rootless_entry_points() { entry_points run_rootless "${DEVICE[@]}" localhost/llama; }
row ctr-entry-points containerd 'ctr: the same' 400
row_ctr_entry_points() {
    ctr_once() { run_ctr "${DEVICE[@]}" "$IMAGE" "entry-$RANDOM" "$@"; }
    entry_points ctr_once
}

row podman-volume-exec - 'llama.cpp on volumes: with the two -e of the log, exec computes on APIR0' 400
row_podman_volume_exec() {
    engine podman
    in_place volume
    computes "${LIMIT[@]}" podman run --rm --network=host -v /mnt/models:/models:ro "${PLACE[@]}" "${DEVICE[@]}" localhost/llama
    hook_says 'only the variable GGML_BACKEND_PATH leads to the plug-in; exec and health checks'
    read -ra extra < <(hook_log | sed -n 's/.* give run, or exec, \(-e .*\)/\1/p' | head -n 1)
    [[ ${#extra[@]} -eq 4 ]] || die "not two -e: ${extra[*]}"
    stay box "${DEVICE[@]}" localhost/llama
    apir doctor --container box | tee "$work/doctor"
    grep -q '^WARN  exec' "$work/doctor" || die 'doctor does not say it'
    grep -qF -- "${extra[*]}" "$work/doctor" || die "doctor does not say: ${extra[*]}"
    HOW='`exec` with the two `-e`'
    observe "${LIMIT[@]}" podman exec "${extra[@]}" box sh -c "$BENCH_ANY"
    sees exec given
    "${REMOVE[@]}" box
    HOW='`run` with the two `-e`'
    stay box "${DEVICE[@]}" "${extra[@]}" localhost/llama
    looks box given given
}

# health ENGINE: what a health check sees.
health() {
    local place
    engine "$1"
    HOW='`run`'
    for place in layer volume; do
        in_place $place
        at_end "${REMOVE[*]} health >/dev/null 2>&1"
        "${LIMIT[@]}" "$1" run -d --name health --network=host "${PLACE[@]}" "${DEVICE[@]}" --health-interval 1s --health-timeout 60s \
            --health-cmd 'test -e /tmp/seen || { llama-bench --list-devices; echo "rc $?"; } >/tmp/seen.new 2>&1; mv /tmp/seen.new /tmp/seen; true' \
            localhost/llama sleep 300 </dev/null
        # Without systemd podman has no timer for it.
        [[ $1 != podman ]] || "${LIMIT[@]}" podman healthcheck run health
        WAIT_TENTHS=600 wait_for "$1" exec health test -e /tmp/seen
        "$1" exec health cat /tmp/seen | tee "$work/seen"
        grep -q '^rc 0$' "$work/seen" || die 'its program did not run'
        case $LATER in
        given) grep -q '^ *APIR0: ' "$work/seen" || die 'the health check does not see APIR0' ;;
        cpu) ! grep -E 'APIR[0-9]|^apir:' "$work/seen" || die 'it is not silent' ;;
        esac
        saw exec "$LATER"
        "${REMOVE[@]}" health
    done
}
row podman-health - 'podman: what a health check sees'
row_podman_health() { health podman; }
row docker-health docker 'docker: the same'
row_docker_health() { health docker; }

# spec_gone ENGINE: exec is as before, a restart fails and says so, and with the spec it computes.
spec_gone() {
    local place rc
    engine "$1"
    at_end '[[ ! -e $work/apir.json ]] || mv "$work/apir.json" /etc/cdi/'
    for place in layer volume; do
        in_place $place
        stay box "${DEVICE[@]}" localhost/llama
        mv /etc/cdi/apir.json "$work/"
        HOW='`exec` while the spec is gone'
        observe in_box box sh -c "$BENCH_ANY"
        sees exec "$LATER"
        rc=0
        "${LIMIT[@]}" "$ENGINE" restart -t 0 box >"$work/restart" 2>&1 || rc=$?
        cat "$work/restart"
        [[ $rc -ne 0 ]] && grep -q 'unresolvable CDI devices' "$work/restart" || die 'it starts without its device'
        HOW='`restart` while the spec is gone' saw run no
        mv "$work/apir.json" /etc/cdi/
        HOW='`start` once the spec is there again'
        "${LIMIT[@]}" "$ENGINE" start box
        looks box given "$LATER"
        "${REMOVE[@]}" box
    done
}
row podman-spec-gone - 'podman: the spec goes while a container runs' 400
row_podman_spec_gone() { spec_gone podman; }
row docker-spec-gone docker 'docker: the same' 400
row_docker_spec_gone() { spec_gone docker; }

# commits ENGINE: an image that is made of a container with the device.
commits() {
    local place
    engine "$1"
    at_end "$ENGINE rmi -f committed >/dev/null"
    for place in layer volume; do
        in_place $place
        stay first "${DEVICE[@]}" localhost/llama
        "$ENGINE" commit first committed
        HOW='`commit`, and `run` without the device'
        stay second committed
        looks second cpu cpu
        "${REMOVE[@]}" second
        HOW='`commit`, and `run` with it'
        stay second "${DEVICE[@]}" committed
        looks second given "$LATER"
        "${REMOVE[@]}" first second
    done
}
row podman-commit - 'an image of podman commit, without the device and with it' 400
row_podman_commit() { commits podman; }
row docker-commit docker 'docker: the same' 400
row_docker_commit() { commits docker; }

row podman-build-device - 'podman build --device, isolation oci and chroot: a RUN computes' 400
row_podman_build_device() {
    local place
    engine podman
    at_end 'podman rmi --ignore -f built >/dev/null'
    printf 'FROM localhost/llama\nRUN (%s) >/last/out 2>/last/err\n' "$BENCH_ANY" >"$work/Containerfile"
    HOW='a `RUN` of `build --device`'
    for place in layer volume; do
        in_place $place
        [[ $place == layer ]] || folders_of_volumes
        for isolation in oci chroot; do
            last=$(mktemp -d "$work/last.XXXXXX")
            "${LIMIT[@]}" podman build --no-cache --isolation=$isolation --network=host -v /mnt/models:/models:ro \
                -v "$last:/last" "${PLACE[@]}" "${DEVICE[@]}" -t built "$work" </dev/null
            cat "$last/err" "$last/out"
            sees run given
        done
    done
    # What the build has left says nothing, either.
    observe run_podman localhost/built sh -c "$BENCH_ANY"
    computed_on CPU
    ! grep -E 'APIR[0-9]|^apir:' "$last/err" || die 'it is not silent'
}
# PLACE as folders of this machine.
folders_of_volumes() {
    "${LIMIT[@]}" podman run --rm --network=host "${PLACE[@]}" localhost/llama true </dev/null
    PLACE=(-v "$(podman volume inspect --format '{{.Mountpoint}}' ggml-lib):${BACKENDS_DIR%/ggml/*}"
        -v "$(podman volume inspect --format '{{.Mountpoint}}' ggml-bin):/usr/bin")
}

# doctor_says STATUS NAME
doctor_says() {
    local rc=0
    apir doctor --container "$2" >"$work/doctor" || rc=$?
    cat "$work/doctor"
    grep -q "^$1  device" "$work/doctor" || die "apir doctor --container $2 does not say $1"
    [[ $1 == PASS && $rc -eq 0 || $1 == FAIL && $rc -eq 1 ]] || die "its exit code is $rc"
}

# on_places COMMAND...: for a layer and a volume of podman's.
on_places() {
    local place
    engine podman
    for place in layer volume; do
        in_place $place
        "$@"
    done
}

# kube_looks HOW LIMITS ANNOTATIONS RUN: podman kube play of a pod with these.
kube_looks() {
    local mounts=()
    HOW=$1
    [[ ${#PLACE[@]} -eq 0 ]] || { folders_of_volumes && mounts=("${PLACE[1]}" "${PLACE[3]}"); }
    at_end "podman pod rm --ignore -f -t 0 p >/dev/null"
    jq -n --arg stay "$(first_program)" --argjson limits "$2" --argjson annotations "$3" '
        [$ARGS.positional[] | split(":")] as $mounts
        | {apiVersion: "v1", kind: "Pod", metadata: {name: "p", annotations: $annotations}, spec: {hostNetwork: true,
            containers: [{name: "c", image: "localhost/llama", command: ["sh", "-c", $stay], resources: {limits: $limits},
                volumeMounts: [$mounts | to_entries[] | {name: "m\(.key)", mountPath: .value[1]}]}],
            volumes: [$mounts | to_entries[] | {name: "m\(.key)", hostPath: {path: .value[0]}}]}}' \
        --args /mnt/models:/models "${mounts[@]}" >"$work/pod.yaml"
    "${LIMIT[@]}" podman kube play "$work/pod.yaml"
    if [[ $4 == given ]]; then
        looks p-c given "$LATER"
        doctor_says PASS p-c
    else
        looks p-c cpu cpu
        doctor_says FAIL p-c
    fi
    podman pod rm -f -t 0 p >/dev/null
}
row podman-kube-later - 'podman kube play: limits with a name, without one, and the annotation of Kubernetes' 600
row_podman_kube_later() {
    on_places kube_looks '`kube play`, limits `virtgpu/apir=gpu0: 1`' '{"virtgpu/apir=gpu0": 1}' '{}' given
    on_places kube_looks '`kube play`, limits `virtgpu/apir: 1`' '{"virtgpu/apir": 1}' '{}' cpu
    on_places kube_looks '`kube play`, annotation `cdi.k8s.io/NAME: virtgpu/apir=gpu0`' '{}' '{"cdi.k8s.io/apir": "virtgpu/apir=gpu0"}' cpu
}

lost_in_pod() {
    HOW='`pod create --device`, a container of the pod'
    at_end 'podman pod rm --ignore -f -t 0 apirpod >/dev/null'
    "${LIMIT[@]}" podman pod create --name apirpod "${DEVICE[@]}"
    "${LIMIT[@]}" podman run -d --pod apirpod --name inpod -v /mnt/models:/models:ro "${PLACE[@]}" localhost/llama \
        sh -c "$(first_program)" </dev/null
    looks inpod cpu cpu
    doctor_says FAIL inpod
    podman pod rm -f -t 0 apirpod >/dev/null
    ! apir doctor --container inpod || die 'it passes what does not run'
}
lost_in_copy() {
    at_end 'podman pod rm --ignore -f -t 0 kept-pod >/dev/null; podman rm --ignore -f -t 0 cloned >/dev/null'
    stay kept "${DEVICE[@]}" localhost/llama
    doctor_says PASS kept
    grep -q 'gpu0' "$work/doctor" || die 'the device is not named'
    grep -q "^$([[ $LATER == given ]] && echo PASS || echo WARN)  exec" "$work/doctor" || die 'exec is not judged'
    HOW='`container clone`'
    "${LIMIT[@]}" podman container clone --run --name cloned kept </dev/null || :
    looks cloned cpu cpu
    doctor_says FAIL cloned
    HOW='`generate kube`, and `kube play`'
    podman generate kube kept >"$work/kept.yaml"
    podman rm -f -t 0 kept cloned >/dev/null
    "${LIMIT[@]}" podman kube play --network=host "$work/kept.yaml"
    looks kept-pod-kept cpu cpu
    doctor_says FAIL kept-pod-kept
    podman pod rm -f -t 0 kept-pod >/dev/null
}
row podman-device-lost - 'pods, clone and generate kube: apir doctor --container sees what they lose' 600
row_podman_device_lost() {
    on_places lost_in_pod
    on_places lost_in_copy
}

row compose docker 'docker compose: devices: [virtgpu/apir=gpu0]' 400
row_compose() {
    local place
    engine docker
    HOW='`docker compose`, `devices: [virtgpu/apir=gpu0]`'
    for place in layer volume; do
        in_place $place
        jq -n --arg stay "$(first_program)" '[$ARGS.positional[] | select(. != "-v")] as $volumes
            | {services: {box: {image: "localhost/llama", container_name: "box", network_mode: "host",
                command: ["sh", "-c", ($stay | gsub("\\$"; "$$"))], devices: ["virtgpu/apir=gpu0"], volumes: $volumes}},
               volumes: ([$volumes[] | select(startswith("/") | not) | {(split(":")[0]): {}}] | add // {})}' \
            --args -- /mnt/models:/models:ro "${PLACE[@]}" >"$work/compose.yaml"
        at_end "docker compose -p row -f $work/compose.yaml down -t 0 -v"
        "${LIMIT[@]}" docker compose -p row -f "$work/compose.yaml" up -d </dev/null
        looks box given "$LATER"
        docker compose -p row -f "$work/compose.yaml" down -t 0 -v
    done
}

row podman-doctor rootless 'apir doctor --container: of a container that does not run, is nobody, or is another user of podman'
row_podman_doctor() {
    at_end 'podman rm --ignore -f -t 0 made >/dev/null; as_user podman rm --ignore -f -t 0 mine >/dev/null'
    says() { # WORDS COMMAND...
        ! "${@:2}" >"$work/doctor" 2>&1 || die 'it passes'
        cat "$work/doctor"
        grep -q -- "$1" "$work/doctor" || die "it does not say: $1"
    }
    podman create --name made "${DEVICE[@]}" localhost/llama sleep 300
    says 'does not run: start it' apir doctor --container made
    "${LIMIT[@]}" podman start made
    apir doctor --container "$(podman inspect --format '{{.Id}}' made)"
    podman stop -t 0 made
    says 'does not run: start it' apir doctor --container made
    as_user "${LIMIT[@]}" podman run -d --name mine --network=host "${DEVICE[@]}" --user 4321 localhost/llama sleep 300 </dev/null
    as_user apir doctor --container mine
    says 'ask as who has started it' apir doctor --container mine
}
