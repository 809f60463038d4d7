# SPDX-License-Identifier: Apache-2.0
#
# docs/CHANGELOG.md as debian/changelog. -v who='NAME <ADDRESS>', of debian/control's Maintainer; -v revision=TEXT,
# what follows the version. A heading is "## [VERSION] - YYYY-MM-DD"; each item below it is one of the entry.

function finish() {
    if (version != "")
        printf "\n -- %s  %s\n", who, strftime("%a, %d %b %Y 12:00:00 +0000", mktime(day " 12 00 00"), 1)
}
/^## \[[0-9]/ {
    finish()
    if (version != "")
        print ""
    version = $2
    gsub(/[][]/, "", version)
    day = $NF
    gsub(/-/, " ", day)
    printf "apir (%s-%s) unstable; urgency=medium\n\n", version, revision
}
/^## / && !/^## \[[0-9]/ { finish(); version = "" }
version == "" || /^#/ || /^$/ { next }
/^- / { sub(/^- /, "  * ") }
/^  [^ *]/ { sub(/^  /, "    ") }
{ print }
END { finish() }
