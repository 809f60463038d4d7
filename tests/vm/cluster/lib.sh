# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh of tests/vm/engines sets last
#
# For the rows of this suite, beside tests/vm/engines/lib.sh: what docs/deploy/ says, with the real programs and
# its own configuration. Two hosts are two network namespaces; Kubernetes' manifests are compared with its API.

# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh

# A command that is also in a document stands there word for word: it is the standard input of these.
# on NAMESPACE: in that network namespace, a machine of its own as far as the network can tell.
on() { "${LIMIT[@]}" ip netns exec "$1" bash -e -o pipefail -s; }

# as_job_user: as the unprivileged user whose jobs these are.
as_job_user() {
    (
        cd "$USER_HOME" || exit
        exec "${LIMIT[@]}" setpriv --reuid user --regid user --init-groups --reset-env bash -e -o pipefail -s
    )
}

# host0's workers in this machine, one for each program that computes, and what one has used of a CPU so far.
workers() { pgrep -x apir-worker || true; }
worker_count() { workers | grep -c . || true; }
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
workers_are() { [[ $(worker_count) -eq $1 ]]; }

# What llama-bench -o json has printed last in $last/out: prompt and generation, both on APIR0.
bench_on_apir() {
    jq -e 'length == 2 and all(.[]; .devices == "APIR0" and .avg_ts > 0 and (.backends | test("APIR")))' \
        "$last/out" >/dev/null || die "not on APIR0: $(cat "$last/out")"
}
