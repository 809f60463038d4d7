#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# CDI specs: what `apir cdi validate` says is what podman's parser does; what generate
# writes where there is no virtio-gpu; the units and the rule.

load system.bash

CORPUS=tests/hostile/fuzz/corpus/cdi

# A container of one static program, without images, storage and network of the machine's.
podman_with() { # SPEC-DIR CDI-DEVICE... : prints the container's environment
    local dir=$1 arguments=()
    shift
    for d in "$@"; do arguments+=(--device "$d"); done
    mkdir -p "$T/rootfs/bin"
    [[ -e $T/rootfs/bin/busybox ]] || cp /bin/busybox "$T/rootfs/bin/"
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 timeout "$(patience 60)" podman --root "$T/podman" --runroot "$T/podman-run" \
        --cgroup-manager=cgroupfs --events-backend=none --runtime=runc --hooks-dir="$T/none" \
        --cdi-spec-dir "$dir" run --rm --network=none "${arguments[@]}" \
        --rootfs "$T/rootfs" /bin/busybox env </dev/null 3>&-
}

@test "cdi validate: agrees with podman's own parser about every spec of the corpus" {
    mkdir "$T/specs" "$T/none"
    local file name valid strict taken kind wrong=() n=0
    for file in "$CORPUS"/*; do
        name=${file##*/}
        case $name in good-* | warn-* | bad-* | strict-*) ;; *) continue ;; esac
        n=$((n + 1))
        cp "$file" "$T/specs/apir.json"
        valid=no
        ! "$APIR" cdi validate --no-host "$file" >"$T/said" || valid=yes
        strict=no
        ! "$APIR" cdi validate --no-host --strict "$file" >/dev/null || strict=yes
        taken=yes
        kind=$(jq -r 'strings // (.kind | strings)' "$file" 2>/dev/null) || kind=
        podman_with "$T/specs" "${kind:-virtgpu/apir}=gpu0" >"$T/out" 2>"$T/err" ||
            ! grep -Eq 'unresolvable|stat .*=gpu0' "$T/err" || taken=no
        # Taken is not all: the edits are in the container.
        case $name:$taken in
        good-*:yes | warn-*:yes) grep -q '^A=b' "$T/out" || wrong+=("$name: $(tail -n 1 "$T/err")") ;;
        esac
        case $name:$valid:$strict:$taken in
        good-*:yes:yes:yes | warn-*:yes:no:yes | bad-*:no:no:no) ;;
        # Here we are stricter, and say why.
        strict-*:no:no:yes) ;;
        *) wrong+=("$name: valid $valid, strictly $strict, taken $taken: $(<"$T/said")") ;;
        esac
    done
    printf '%s\n' "${wrong[@]}"
    [[ $n -gt 40 && ${#wrong[@]} -eq 0 ]]
}

@test "cdi validate: exit codes and JSON are for scripts" {
    local good=$CORPUS/good-least bad=$CORPUS/bad-env warn=$CORPUS/warn-hook-env
    run -0 "$APIR" cdi validate "$good" "$warn"
    run -1 "$APIR" cdi validate --strict "$good" "$warn"
    run -1 "$APIR" cdi validate "$good" "$bad"
    run -2 "$APIR" cdi validate
    run -2 "$APIR" cdi validate --nonsense "$good"
    run -3 "$APIR" cdi validate "$good" "$T/none"
    run -1 "$APIR" cdi validate "$bad" "$T/none"
    echo '{' >"$T/half.json"
    run -1 "$APIR" cdi validate "$T/half.json"
    # A mount's source is looked for, and not with --no-host.
    sed 's,"/bin","/nonexistent",' "$CORPUS/good-mount" >"$T/away.json"
    gives 1 'mount source /nonexistent' "$APIR" cdi validate "$T/away.json"
    run -0 "$APIR" cdi validate --no-host "$T/away.json"

    run -1 "$APIR" cdi validate --json "$good" "$bad" "$T/none"
    jq -e 'map(.valid) == [true, false, false] and .[0].findings == [] and
           .[1].findings[0].grade == "error" and (.[1].findings[0].text | contains("NAME=VALUE")) and
           (.[2].findings[0].text | contains("No such file"))' <<<"$output"
}

@test "cdi list: devices, ids and files" {
    mkdir "$T/d"
    echo '{"cdiVersion":"0.3.0","kind":"virtgpu/apir","devices":[{"name":"gpu1","containerEdits":{
        "env":["APIR_DEVICE_1=abc"],"deviceNodes":[{"path":"/dev/dri/renderD128"}]}},{"name":"host0",
        "containerEdits":{"env":["A=b"]}}]}' >"$T/d/x.json"
    run -0 "$APIR" cdi list --spec-dir "$T/d"
    [[ $output == "virtgpu/apir=gpu1"$'\t'/dev/dri/renderD128$'\t'abc$'\t'"$T/d/x.json"$'\n'"virtgpu/apir=host0"$'\t'"$T/d/x.json" ]]
    run -0 "$APIR" cdi list --json --spec-dir "$T/d"
    jq -e 'length == 2 and .[0].id == "abc" and .[0].nodes == ["/dev/dri/renderD128"] and (.[1] | has("id") | not)' \
        <<<"$output"
    echo '{"a":1,"a":1}' >"$T/d/y.json"
    run -1 --separate-stderr "$APIR" cdi list --spec-dir "$T/d"
    [[ ${#lines[@]} -eq 2 && $stderr == *y.json*twice* ]]
}

# A listening socket's file; nobody need answer for a spec.
socket_in() {
    mkdir -p "$1"
    perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die' "$1/apir.sock"
}

@test "cdi generate: host0 alone is a spec, which podman takes" {
    socket_in "$T/host"
    (umask 077; "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host" --output "$T/cdi/apir.json")
    [[ $(stat -c '%a %u %g' "$T/cdi/apir.json") == '644 0 0' && $(stat -c %a "$T/cdi") == 755 ]]
    [[ $(ls -A "$T/cdi") == apir.json ]]
    run -0 "$APIR" cdi validate --strict "$T/cdi/apir.json"
    [[ $(jq -r '.devices[].name, .cdiVersion' "$T/cdi/apir.json") == $'host0\n0.4.0' ]]
    # Podman mounts and sets it. The hook has its own tests; its absence must not matter.
    "$APIR" cdi generate --dev-root "$T" --host-socket "$T/host" --output "$T/cdi/apir.json" --no-hook
    jq -e '.containerEdits | has("hooks") | not' "$T/cdi/apir.json"
    run -0 --separate-stderr podman_with "$T/cdi" virtgpu/apir=host0
    [[ $output == *APIR_TRANSPORT=unix:/run/apir/host/apir.sock* ]]
    [[ $output == *GGML_BACKEND_PATH=/usr/lib/apir/libggml-apir.so* && $output == *GGML_VK_VISIBLE_DEVICES=* ]]
}

@test "cdi generate: writes nothing that is not whole" {
    socket_in "$T/host"
    local generate=("$APIR" cdi generate --dev-root "$T" --host-socket "$T/host")
    # Printed, not written.
    run -0 --separate-stderr "${generate[@]}" --output "$T/x.json" --dry-run
    jq -e '.kind == "virtgpu/apir"' <<<"$output"
    run -0 --separate-stderr "${generate[@]}" --output -
    jq -e '.kind == "virtgpu/apir"' <<<"$output"
    [[ ! -e $T/x.json ]]
    # Another vendor and a class that wants a later version.
    run -0 --separate-stderr "${generate[@]}" --vendor a.b --class c.d --output -
    jq -e '.kind == "a.b/c.d" and .cdiVersion == "0.6.0"' <<<"$output"
    run -2 "${generate[@]}" --vendor 1a --output "$T/x.json"
    # What CDI's grammar takes, and what podman 5.8's parser does not survive.
    run -0 --separate-stderr "${generate[@]}" --vendor Gpu-1.Example.com --class A_b.9-z --output -
    jq -e '.kind == "Gpu-1.Example.com/A_b.9-z"' <<<"$output"
    run -2 "${generate[@]}" --class a --output "$T/x.json"
    [[ $output == *"one letter"* ]]
    run -2 "${generate[@]}" --vendor v --output "$T/x.json"
    run -2 "${generate[@]}" --vendor my_gpu --output "$T/x.json"
    [[ $output == *"DNS name"* ]]
    run -2 "${generate[@]}" --hook /bin/true --no-hook --output "$T/x.json"
    run -2 "$APIR" cdi generate --host-socket relative --output "$T/x.json"
    # What is to be injected must be there.
    run -1 "${generate[@]}" --plugin "$T/none" --output "$T/x.json"
    run -1 "${generate[@]}" --hook "$T/none" --output "$T/x.json"
    gives 1 "mount source $T/none" "$APIR" cdi generate --dev-root / --host-socket "$T/none" --output "$T/x.json"
    # Nothing here at all: another code, and what was there stays.
    echo old >"$T/x.json"
    if [[ ! -S /run/apir/host/apir.sock ]]; then
        run -3 "$APIR" cdi generate --dev-root "$T" --output "$T/x.json"
    fi
    [[ $(<"$T/x.json") == old ]]
    # A file that is no spec costs no more than its numbers.
    run -0 --separate-stderr "${generate[@]}" --output "$T/x.json"
    [[ $stderr == *x.json*"numbered anew"* ]]
    run -0 "$APIR" cdi validate --strict "$T/x.json"
}

@test "units: systemd and udev find nothing wrong, and little is left open" {
    mkdir "$T/units"
    local unit
    for unit in service path; do
        sed "s|@bindir@|$(realpath "$OUT/cdi")|; s|@prefix@|/usr|" "cdi/systemd/apir-cdi-refresh.$unit.in" \
            >"$T/units/apir-cdi-refresh.$unit"
    done
    run -0 systemd-analyze verify --man=no "$T"/units/*
    [[ -z $output ]]
    # Tenths of systemd's measure; what is not restricted at all has 96.
    run -0 systemd-analyze security --offline=yes --threshold=20 "$T/units/apir-cdi-refresh.service"
    run -0 udevadm verify --resolve-names=never cdi/systemd/90-apir.rules
    # The verifiers do see mistakes.
    sed -i 's/^Type=oneshot/Tipe=oneshot/' "$T/units/apir-cdi-refresh.service"
    run systemd-analyze verify --man=no "$T/units/apir-cdi-refresh.service"
    [[ $output == *Tipe* ]]
}

@test "install: units and rule are where systemd looks, with the paths of this prefix" {
    # Some files of a build know the prefix.
    cp -a "$OUT" "$T/build"
    ${MAKE:-make} --no-print-directory -s install-cdi O="$T/build" DESTDIR="$T/root" prefix=/opt/apir >/dev/null 3>&-
    local units=$T/root/opt/apir/lib/systemd/system
    grep -qx 'ExecStart=/opt/apir/bin/apir cdi generate' "$units/apir-cdi-refresh.service"
    grep -qx 'PathChanged=/opt/apir/lib/apir/libggml-apir.so' "$units/apir-cdi-refresh.path"
    refute grep -rq '@[a-z]*@' "$units"
    [[ $(stat -c %a "$units"/* "$T/root/opt/apir/lib/udev/rules.d/90-apir.rules" | sort -u) == 644 ]]
}
