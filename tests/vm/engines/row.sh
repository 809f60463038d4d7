#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# row.sh NAME: runs one row of $SUITE, in the VM. It passes if its function ends with 0;
# the function runs with -e, and says in its last line why it fails.
set -euo pipefail
NAME=$1
. tests/vm/engines/table.sh
work=$(mktemp -d /run/row.XXXXXX)
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh
# shellcheck source=/dev/null
[[ $SUITE == engines || ! -e tests/vm/$SUITE/lib.sh ]] || . "tests/vm/$SUITE/lib.sh"
trap finish EXIT
at_end "rm -rf $work"
log_mark
"row_${1//-/_}"
