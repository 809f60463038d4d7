# SPDX-License-Identifier: Apache-2.0
#
# Lines of samples to results.json (docs/bench-method.md has both): jq -nR --arg targets PREFIX -f report.jq FILE...
include "targets";

# ---- samples --------------------------------------------------------------------------

def fail($why): "\(input_filename):\(input_line_number): \($why)\n" | halt_error(1);
def must(condition; $why): if condition then . else fail($why) end;
def is_name: type == "string" and test("\\A[A-Za-z0-9._:-]{1,47}\\z");

# One line's object: another program, or a person, may have written it.
def checked:
    must(type == "object"; "not a JSON object")
    | must(keys - ["case", "side", "metric", "pair", "n", "seconds", "value", "unit", "time", "commit"] == [];
        "unknown key")
    | must(all(.case, .side, .metric; is_name); "case, side and metric must all be there, of letters, digits and -._:")
    | must(has("seconds") != has("value") and has("value") == has("unit"); "either seconds, or value with unit")
    | must(all(.seconds // .value, .n // 1, .pair // 0; type == "number" and . - . == 0); "no number")
    | must((.seconds // 1) > 0 and (.n // 1) > 0; "seconds and n must be more than 0")
    | must((.pair // 0) >= 0 and (.pair // 0) == (.pair // 0 | floor); "pair must be a whole number, 0 or more");

# Two runs in one file could not be told apart: pairs would be made of their mixture.
def add($sample):
    ($sample | [.case, .side, .metric, .pair] | tojson) as $key
    | must($sample.pair == null or (.seen[$key] | not); "this pair was there before; give the files of one run only")
    | .seen[$key] = true | .samples += [$sample];

def samples_read:
    reduce (inputs | select(test("\\S"))) as $line ({facts: null, samples: [], seen: {}};
        ($line | try fromjson catch fail("not JSON, or cut short")) as $o
        | if $o | type == "object" and has("facts") then .facts //= $o.facts else add($o | checked) end);

# ---- statistics -------------------------------------------------------------------------

# Tokens per second, or the value (or duration) itself.
def measure: if .seconds and .n then .n / .seconds else .seconds // .value end;

def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;

# How many of n values on either side a 95% interval of the median leaves out, and one: each value is above the median
# as likely as below, so this is the binomial distribution's 2.5%. None with fewer than six.
def rank:
    . as $n
    | if $n > 1000 then $n / 2 - 0.98 * ($n | sqrt) | floor
      else {k: 0, sum: 0, next: pow(0.5; $n)}
        | until(.sum + .next > 0.025; .sum += .next | .k += 1 | .next *= ($n - .k + 1) / .k) | .k end;

def interval:
    sort | length as $n | ([$n | rank, 1] | max) as $k
    | {median: median, low: .[$k - 1], high: .[$n - $k], $n};
def single: {median: ., low: ., high: ., n: 1, single: true};

# ---- targets ----------------------------------------------------------------------------

def of($key):
    select(.case == $key.case and .side == $key.side
        and ($key.metric as $m | .metric | if $m | endswith("*") then startswith($m[:-1]) else . == $m end));

# The measures [a, b] of each pair that both keys have.
def paired($a; $b):
    def place: if $b.metric | endswith("*") then "\(.pair) \(.metric)" else "\(.pair)" end;
    INDEX(.[] | select(.pair != null) | of($b); place) as $others
    | .[] | select(.pair != null) | of($a) | $others[place] as $other | select($other) | [measure, ($other | measure)];

def final($key): map(of($key)) | max_by(.pair) // empty | .value;

# What the samples say of a target; nothing without samples.
def found($t):
    if $t.kind == "value" then
        map(of($t)) | select(length > 0)
        | if any(.pair != null) then map(measure) | interval
          else {n: length} as $n | map(measure) | median | single + $n end
    elif $t.kind == "ratio" then
        [paired($t; $t.other) | .[0] / ([.[1], $t.enough // infinite] | min)] | select(length > 0) | interval
    elif $t.kind == "added" then
        [paired($t; $t.other) | 1000 / .[0] - 1000 / .[1]] | select(length > 0) | interval
    elif $t.kind == "beyond" then
        final($t) - final($t.other) | single
    else
        final($t) - (map(of($t) | select(.pair == 1)) | .[0] // empty | .value) | single
    end;

def holds($t):
    if $t.comparison == ">=" then . >= $t.target elif $t.comparison == ">" then . > $t.target
    elif $t.comparison == "<=" then . <= $t.target else . < $t.target end;

# Fewer than six pairs decide nothing: 95% are out of reach then.
def verdict($t):
    if (.single | not) and .n < 6 then "undecided"
    else [.low, .high | holds($t)] | if all then "met" elif any then "undecided" else "missed" end end;

# ---- rows -------------------------------------------------------------------------------

# Groups in the order of their first samples.
def groups(key): to_entries | group_by(.value | key) | sort_by(.[0].key) | map(map(.value));

def side_of($row; $all):
    . as $of | $of[0].side as $side
    | {median: map(measure) | median, n: length}
    + ([select($side != "native" and ($row.course | not))
            | $all | paired($row + {$side}; $row + {side: "native"}) | .[0] / .[1]]
        | if length > 0 then {ratio: interval} else {} end)
    + if $row.course then {course: ($of | sort_by(.pair) | [.[0], .[1], .[-1] | {n, value}])} else {} end;

def rows:
    groups([.case, .metric]) | map(. as $all
        | (.[0] | {case, metric, unit: (.unit // if .n then "t/s" else "s" end)})
            + {course: any(.unit and .n)}
        | . + {sides: (. as $row | $all | groups(.side) | map({key: .[0].side, value: side_of($row; $all)}) | from_entries)});

samples_read | del(.seen) | .samples as $samples
| if $samples == [] then "no samples in these files; run something first\n" | halt_error(1) else . end
| {
    schema: "apir-bench-results-2",
    facts,
    commits: ($samples | map(.commit // empty) | unique),
    method: {interval: "order statistics of the median", coverage: 0.95, deciding: 6},
    rows: ($samples | rows),
    targets: (targets | map(select(.name | startswith($targets)) | . as $t
        | ($samples | [found($t)][0]) as $found
        | if $found then . + {$found, verdict: ($found | verdict($t))} else . + {verdict: "not run here"} end)),
    $samples
}
| if .targets == [] then "--targets \($targets): no target's name begins so\n" | halt_error(1) else . end
| .met = (.targets | map(select(.verdict == "met")) | length) | .of = (.targets | map(select(.found)) | length)
