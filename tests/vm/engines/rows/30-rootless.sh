# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # lib.sh and row.sh share variables
#
# podman as an unprivileged user, who is in the group of the node.

KEEP=(--group-add keep-groups)

placed rootless-crun rootless 'podman rootless, crun, node 0666' \
    'run_rootless --runtime crun "${DEVICE[@]}" localhost/llama'
placed rootless-runc rootless 'podman rootless, runc, node 0666' \
    'run_rootless --runtime runc "${DEVICE[@]}" localhost/llama'

row rootless-keep-groups rootless 'node 0660 and --group-add keep-groups'
row_rootless_keep_groups() {
    node_mode 0660
    computes run_rootless "${KEEP[@]}" "${DEVICE[@]}" localhost/llama
}

row rootless-no-groups rootless 'node 0660 without keep-groups: on its CPU, and one line names the option'
row_rootless_no_groups() {
    node_mode 0660
    observe run_rootless "${DEVICE[@]}" localhost/llama sh -c "$BENCH_ANY"
    computed_on CPU
    grep -q '^apir: .*--group-add keep-groups' "$last/err" || die 'the option is not named'
}

for mode in auto keep-id nomap; do
    row "rootless-$mode" rootless "--userns=$mode, node 0666"
    row "rootless-$mode-0660" rootless "--userns=$mode --group-add keep-groups, node 0660"
    eval "row_rootless_${mode/-/_}() { computes run_rootless --userns=$mode \"\${DEVICE[@]}\" localhost/llama; }
        row_rootless_${mode/-/_}_0660() {
            node_mode 0660
            computes run_rootless \"\${KEEP[@]}\" --userns=$mode \"\${DEVICE[@]}\" localhost/llama
        }"
done

computing rootless-read-only rootless '--read-only --cap-drop=all --security-opt no-new-privileges' \
    'run_rootless --read-only --cap-drop=all --security-opt no-new-privileges "${DEVICE[@]}" localhost/llama'

row rootless-hooksd rootless 'no CDI: the precreate hook and the annotation'
row_rootless_hooksd() {
    PODMAN+=(--hooks-dir "$PRECREATE_DIR")
    computes run_rootless "${ANNOTATION[@]}" localhost/llama
}

row rootless-create-runtime rootless 'no CDI, no precreate: createRuntime and the annotation, crun and runc'
row_rootless_create_runtime() {
    PODMAN+=(--hooks-dir "$HOOKS_DIR")
    for runtime in crun runc; do
        computes run_rootless --runtime "$runtime" "${ANNOTATION[@]}" localhost/llama
    done
}
