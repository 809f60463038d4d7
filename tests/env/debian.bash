# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# To be sourced by what makes trees of Debian with mmdebstrap: debian_args is what all of them are told. The smallest
# of its variants, no packages that are merely recommended, no documents but copyrights, and what this machine's own
# apt is told about the age of indexes (an archive snapshot, a clock that is off). Signatures are always verified.

# shellcheck disable=SC2034 # the caller's
debian_args=(--variant=minbase --aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*'
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/doc/*/copyright')
while IFS= read -r debian_option; do
    debian_args+=(--aptopt="$debian_option")
done < <(apt-config dump 2>/dev/null | grep -E '^Acquire::(Check-Valid-Until|Check-Date) ' || :)
unset debian_option
