# SPDX-License-Identifier: Apache-2.0
#
# results.json as Markdown, and how many targets are met.

# Four digits that count.
def g:
    if . == null then "" elif . == 0 then "0"
    else (3 - (fabs | log10 | floor)) as $d
        | if $d > 0 then (. * pow(10; $d) | round) / pow(10; $d) else round end | tostring end;
def interval: "\(.median | g) (\(.low | g) to \(.high | g)";
def line: "| \(join(" | ")) |";

(select(.commits != []) | "- commits: \(.commits | join(", "))"),
((.facts // {}) | to_entries[] | "- \(.key): \(.value | if type == "string" then . else tojson end)"),
"",
"| case | metric | side | median | unit | n | side / native (95% interval) |",
"|---|---|---|---:|---|---:|---|",
(.rows[] | select(.course | not) | . as $row | .sides | to_entries[] | .key as $side | .value
    | [$row.case, $row.metric, $side, (.median | g), $row.unit, .n, if .ratio then .ratio | interval + ")" else "" end]
    | line),
([.rows[] | select(.course) | . as $row | .sides | to_entries[]
        | [$row.case, $row.metric, .key, $row.unit, (.value.course | (.[] | .value | g), .[-1].n)]]
    | select(. != [])
    | "", "| case | metric | side | unit | start | first step | last | tokens |", "|---|---|---|---|---:|---:|---:|---:|",
    (.[] | line)),
"",
"| target | what | found (95% interval) | wanted | verdict |",
"|---|---|---|---|---|",
(.targets[] | [.name, .what,
        (.found | if not then "" elif .single then .median | g else "\(interval); n=\(.n))" end),
        "\(.comparison) \(.target)", .verdict] | line),
"",
"bench: \(.met) of \(.of) targets met"
