# SPDX-License-Identifier: Apache-2.0
#
# awk -v verdicts=FILE -v rest=FILE -v all=0|1 -f judge.awk PENDING RESULTS
#
# PENDING and RESULTS have lines of status, tab, name; PENDING is what the host's own backend said,
# RESULTS what one process said over the wire, in the order in which it ran them. A case on which
# they agree gets its verdict. So does one that went wrong while a later case still went right.
# What remains went wrong, or never ran, after the last good case: the first of these gets the
# blame, the others are innocent until they have run in a new process, and go to `rest`. With
# all=1 nobody is given another chance.
#
# A verdict is: status here, tab, status there, tab, name.
BEGIN {
    FS = "\t"
}
FNR == NR {
    if (!($2 in want))
        order[++n] = $2
    want[$2] = worse(want[$2], $1)
    next
}
$2 in want {
    if (!($2 in got))
        run[++m] = $2
    got[$2] = worse(got[$2], $1)
}
END {
    # Not supported on both sides agrees too, but says nothing about the connection.
    for (i = 1; i <= m; i++)
        if (got[run[i]] == "OK")
            last = i
    for (i = 1; i <= m; i++)
        if (as_native(run[i]) || i <= last)
            settle(run[i], got[run[i]])
        else if (!blamed || all) {
            blamed = 1
            settle(run[i], got[run[i]])
        }
    for (i = 1; i <= n; i++) {
        name = order[i]
        if (name in settled)
            continue
        if ((name in got) && blamed && !all) {
            print want[name] "\t" name > rest
        } else if (!blamed || all) {
            blamed = 1
            settle(name, name in got ? got[name] : "no answer")
        } else {
            print want[name] "\t" name > rest
        }
    }
}
# A case may occur more than once; it is as good as its worst run.
function worse(a, b) {
    if (a == "FAIL" || b == "FAIL")
        return "FAIL"
    if (a == "unsupported" || b == "unsupported")
        return "unsupported"
    return "OK"
}
# What fails natively may do what it likes.
function as_native(name) {
    return want[name] == got[name] || want[name] == "FAIL"
}
function settle(name, status) {
    settled[name] = 1
    print want[name] "\t" status "\t" name > verdicts
}
