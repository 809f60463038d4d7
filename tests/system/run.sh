#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [--part] [--filter REGEX] [OUT [FILE.bats]...]: the system tests; ends with one line of sums. A test that was
# skipped counts as neither, and is named. Without files it is all of them over vtest, and then those
# that may differ over the unix transport. --part leaves out those that are tagged as long; --filter takes
# those whose names fit.
set -euo pipefail
cd "$(dirname "$0")/../.."
tags=()
if [[ ${1-} == --part ]]; then
    tags=(--filter-tags '!long')
    shift
fi
if [[ ${1-} == --filter ]]; then
    tags+=(--filter "$2")
    shift 2
fi
APIR_OUT=${1:-build/release-gcc}
export APIR_OUT
shift || :
files=("$@")
again=()
if [[ ${#files[@]} -eq 0 ]]; then
    files=(tests/system/*.bats)
    again=(tests/system/loss.bats tests/system/silence.bats tests/system/clients.bats tests/system/memory.bats)
fi
log=$(mktemp "${TMPDIR:-/tmp}/system.XXXXXX")
trap 'rm -f "$log"' EXIT

# Workers keep no shader that they compile, and each compiles for half a minute here. They read what their user has
# kept, and these runs are that user's.
lavapipe=/usr/share/vulkan/icd.d/lvp_icd.json
if [[ ${#again[@]} -gt 0 && -r $lavapipe ]]; then
    for command in 'system/apir-exercise events Vulkan0' \
        'differ/ggml-differ --remote Vulkan0 --only bulk --sequences 1 --steps 5 --seed 100'; do
        # shellcheck disable=SC2086 # words are what is wanted
        VK_DRIVER_FILES=$lavapipe GGML_VK_VISIBLE_DEVICES=0 "$APIR_OUT/tests/"$command >/dev/null 2>&1 ||
            echo "system: $command does not run on lavapipe natively" >&2
    done
fi

# Three files at a time: their tests mostly wait, each with a server and a folder of its own.
options=(--jobs "${SYSTEM_JOBS:-3}" --no-parallelize-within-files --timing --formatter tap ${tags[@]+"${tags[@]}"})
status=0
bats "${options[@]}" "${files[@]}" | tee "$log" || status=$?
first=$(wc -l <"$log")
if [[ ${#again[@]} -gt 0 ]]; then
    echo "# over the unix transport"
    # What a Vulkan device does with memory does not depend on how it came.
    SYSTEM_TRANSPORT=unix bats "${options[@]}" \
        --filter '^(loss|silence|client|memory: (host buffers|several|random|events|loss in the middle of host))' \
        "${again[@]}" | tee -a "$log" || status=$?
fi

passed=$(grep -c '^ok [0-9]' "$log") || :
skipped=$(grep -c '^ok [0-9].* # skip' "$log") || :
failed=$(grep -c '^not ok [0-9]' "$log") || :
# A file that cannot even be read has no test that fails.
[[ $status -eq 0 || $failed -gt 0 ]] || failed=1
[[ $skipped -eq 0 ]] || echo "system: $skipped skipped"
if [[ ${#again[@]} -gt 0 ]]; then
    over_unix=$(tail -n "+$((first + 1))" "$log" | grep '^ok [0-9]' | grep -vc ' # skip') || :
    echo "system: of these again, over unix: $over_unix passed, 0 failed"
fi
echo "system: $((passed - skipped)) passed, $failed failed"
[[ $status -eq 0 && $failed -eq 0 && $passed -gt $skipped ]]
