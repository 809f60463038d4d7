# SPDX-License-Identifier: Apache-2.0
#
# The samples of vm.sh (jq -rs) as a table for people: medians, and what remoting
# from the guest adds to a token, which is the median of the differences of pairs.

def median: sort | if length % 2 == 1 then .[length / 2 | floor]
                   else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def round1: . * 10 | round / 10;
def left($n): . + " " * $n | .[:$n];
def right($n): tostring | " " * ($n - length) + .;
def row($a): ($a[0] | left(10)) + ($a[1] | left(14)) + ($a[2:] | map(right(12)) | join(""));

(row(["case", "metric", "native", "apir", "added", "unit"])),
(map(select(.seconds)) | group_by([.case, .metric])[] |
    (map(select(.side == "native"))) as $native | (map(select(.side == "apir"))) as $apir |
    def us: .seconds / .n * 1e6;
    row([.[0].case, .[0].metric, ($native | map(us) | median | round1),
         ($apir | map(us) | median | round1),
         ([$apir[] as $a | $native[] | select(.pair == $a.pair) | ($a | us) - us] | median | round1),
         "us/token"])),
(map(select(.value)) | group_by([.case, .metric])[] |
    row([.[0].case, .[0].metric, "", (map(.value) | median * 10000 | round / 10000), "", .[0].unit]))
