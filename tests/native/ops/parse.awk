# SPDX-License-Identifier: Apache-2.0
#
# The output of test-backend-ops -> one line per case: status, tab, name. The tests' own remarks
# (an error with its numbers) stand before the name on the same line and are dropped.
{
    gsub(/\033\[[0-9;]*m/, "")
    if (!match($0, /: (OK|FAIL|not supported \[[^\]]*\]) *$/))
        next
    status = substr($0, RSTART + 2, 4)
    name = substr($0, 1, RSTART - 1)
    if (!match(name, /(^|  )[A-Z][A-Z0-9_]*\(.*\)$/))
        next
    name = substr(name, RSTART)
    sub(/^ */, "", name)
    if (status ~ /^OK/)
        status = "OK"
    else if (status ~ /^FAIL/)
        status = "FAIL"
    else
        status = "unsupported"
    print status "\t" name
}
