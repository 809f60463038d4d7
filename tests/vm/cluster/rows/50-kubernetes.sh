# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh and row.sh share variables
#
# docs/deploy/kubernetes/ against Kubernetes' own examples of every kind; no cluster is here.

manifests() { python3 tests/vm/cluster/manifests.py /mnt/share/schemas "$@"; }

row k8s-manifests - 'each member of each manifest is one of Kubernetes 1.36, of its type'
row_k8s_manifests() { manifests docs/deploy/kubernetes/*.yaml; }

row k8s-mistakes - 'the same check refuses a wrong member, one twice, wrong types, a version without the kind, and nothing'
row_k8s_mistakes() {
    local name from=docs/deploy/kubernetes
    sed 's/failurePolicy/failPolicy/' "$from/limit-to-device.yaml" >"$work/member.yaml"
    sed 's/reinvocationPolicy: IfNeeded/reinvocationPolicy: 3/' "$from/limit-to-device.yaml" >"$work/type.yaml"
    sed 's/args: .*/args: none/' "$from/pod.yaml" >"$work/list.yaml"
    sed 's/restartPolicy: .*/volumes: []/' "$from/pod.yaml" >"$work/twice.yaml"
    sed 's|k8s.io/v1$|k8s.io/v3|' "$from/no-device-without-limit.yaml" >"$work/version.yaml"
    : >"$work/nothing.yaml"
    for name in member type list twice version nothing; do
        ! manifests "$work/$name.yaml" || die "$name: taken for right"
    done
}

row k8s-policies - 'what one policy grants is what the other one lets through'
row_k8s_policies() {
    local name
    for name in limit-to-device no-device-without-limit; do
        python3 -c 'import json, sys, yaml; print(json.dumps(next(yaml.safe_load_all(sys.stdin))))' \
            <"docs/deploy/kubernetes/$name.yaml" >"$work/$name.json"
        jq -c '.spec.variables | map(select(.name == "containers" or .name == "wanted"))' "$work/$name.json" >"$work/$name"
        jq -r '[.. | strings] | join("\n")' "$work/$name.json" | grep -oE 'virtgpu/apir=[a-z0-9]+|cdi-devices[a-z./]+' |
            sort -u >>"$work/$name"
    done
    cat "$work/limit-to-device"
    [[ $(wc -l <"$work/limit-to-device") -eq 3 ]] || die 'not two variables, a key and a device'
    cmp "$work/limit-to-device" "$work/no-device-without-limit" || die 'they differ'
}

absent k8s-cluster 'the manifests on a cluster, with the injector' 'neither a kubelet, an API server nor the plug-in is packaged'
