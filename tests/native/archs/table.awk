# SPDX-License-Identifier: Apache-2.0
#
# awk -v devices=NAME,... -f table.awk OUTPUT
#
# Reads what test-llama-archs prints and writes, separated by tabs, a line for each row:
#
#   architecture  configuration  device  cell...      a cell: COLUMN=STATE (VALUE)
#
# Real devices are named by their order in `devices`, since the tool shows descriptions, which two
# devices can have in common; the tool's own combinations keep their names. Columns after the third
# are taken as they come. What a crash kept from being printed is a cell in the state "cut off".
function trim(s) {
    gsub(/^ +| +$/, "", s)
    gsub(/ +/, " ", s)
    return s
}
function device(arch, config, label) {
    if (label == "Meta" || label == "Host experts") return label
    label = names[++place[arch, config]]
    return label ? label : "device " place[arch, config]
}
BEGIN { FS = "|"; split(devices, names, ",") }
{ gsub(/\033\[[0-9;]*m/, "") }
/^\| *Model arch/ {
    n_columns = NF - 2
    for (i = 4; i <= n_columns; i++) column[i] = trim($(i + 1))
    next
}
/^\|-/ || !/^\|/ { next }
{
    line = trim($2) "\t" trim($4) "\t" device(trim($2), trim($4), trim($3))
    # The last field ends without a bar if the process died in it.
    for (i = 4; i <= n_columns; i++)
        line = line "\t" column[i] "=" (i + 1 < NF ? trim($(i + 1)) : "cut off")
    print line
}
