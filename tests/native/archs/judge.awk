# SPDX-License-Identifier: Apache-2.0
#
# awk -v from=CPU -v to=APIR0 -v how=exact|states|alone -f judge.awk NATIVE REMOTED
#
# Compares the rows of device `to` in REMOTED with those of device `from` in NATIVE, both as
# table.awk writes them and both of one architecture. Each configuration must have its row, each
# cell the same state (its first word), with `exact` the same figures too. What natively fails may be
# OK with `states`: by the figures alone such a cell says nothing. With `alone` there is no such
# device natively: each row in REMOTED must be OK or skipped.
#
# Prints one line: PASS, FAIL, SKIP (nothing but skipped cells on both sides) or NONE (no row of
# such a device on both sides), and then what was seen or what differs.
BEGIN { FS = "\t" }
function state(cell) {
    sub(/^[^=]*=/, "", cell)
    sub(/ .*/, "", cell)
    return cell
}
function agrees(remoted, native) {
    if (how == "alone") return state(remoted) ~ /^(OK|SKIP)$/
    if (how == "states")
        return state(remoted) == state(native) || (state(native) == "FAIL" && state(remoted) == "OK")
    return remoted == native
}
function differ(what) {
    differs = differs (differs ? "; " : "") what
}
function compare(config, remoted, native,    g, w, cells, i, text) {
    cells = split(remoted, g)
    if (split(native, w) != cells) {
        differ(config ": no such row")
        return
    }
    for (i = 4; i <= cells; i++) {
        if (!agrees(g[i], w[i])) {
            sub(/^[^=]*=/, "", w[i])
            differ(config ": " g[i] (how == "alone" ? "" : ", natively " w[i]))
            # And so is all that follows.
            if (state(g[i]) == "cut") break
        }
        if (state(g[i]) != "SKIP") ran++
        text = text (text ? ", " : "") g[i]
    }
    seen = seen (seen ? "; " : "") config ": " text
}
FNR == NR && $3 == from { want[$2] = $0 }
FNR != NR && $3 == to {
    got[$2] = $0
    if (how == "alone") want[$2] = $0
}
END {
    # Dense before MoE, whatever the order of awk's arrays.
    n = split("Dense MoE", order, " ")
    for (config in want)
        if (config != "Dense" && config != "MoE") order[++n] = config
    for (i = 1; i <= n; i++) {
        if (!(order[i] in want)) continue
        rows++
        compare(order[i], got[order[i]], want[order[i]])
    }
    verdict = !rows ? "NONE" : differs ? "FAIL" : ran ? "PASS" : "SKIP"
    print verdict " " (differs ? differs : seen)
}
