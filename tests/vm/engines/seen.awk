# SPDX-License-Identifier: Apache-2.0
#
# seen.awk [FILE]: the table of docs/engines.md of what programs see, from the lines that rows have written
# (saw in rows/70-later.sh): where, how, run or exec, what, row, with tabs between. A cell of which rows say
# different things says so, and then is no longer the document's.

BEGIN {
    FS = "\t"
    print "| llama.cpp in | started by | run | exec, health check | rows |"
    print "|---|---|---|---|---|"
}
{
    line = $1 FS $2
    if (!(line in rows)) {
        order[++n] = line
        rows[line] = ""
    }
    if ((line, $3) in cell && cell[line, $3] != $4)
        $4 = cell[line, $3] "; in " $5 ": " $4
    cell[line, $3] = $4
    if (!((line, $5) in named)) {
        named[line, $5] = 1
        rows[line] = rows[line] (rows[line] == "" ? "" : ", ") "`" $5 "`"
    }
}
END {
    for (i = 1; i <= n; i++) {
        split(order[i], part, FS)
        printf "| %s | %s | %s | %s | %s |\n", part[1], part[2], cell[order[i], "run"], cell[order[i], "exec"], rows[order[i]]
    }
}
