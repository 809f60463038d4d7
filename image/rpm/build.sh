#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh VERSION: rpm packages of build/dist/apir-VERSION.tar.xz, in build/rpm/. The spec is the archive's. Where
# rpm knows no packages of the machine (Debian), what they are built with is not asked for, and debug symbols, for
# which rpm needs tools of its own, stay where they are.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -eq 1 ]] || { echo "usage: build.sh VERSION" >&2 && exit 2; }
version=$1

mkdir -p build/rpm
exec 9>build/rpm/.lock
flock 9
work=$(mktemp -d "$PWD/build/rpm/work-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/SOURCES"
cp "build/dist/apir-$version.tar.xz" "$work/SOURCES/"
tar -C "$work" -xf "$work/SOURCES/apir-$version.tar.xz" "apir-$version/image/rpm/apir.spec"
# The commit's time, and nobody's machine: the same archive makes the same packages.
SOURCE_DATE_EPOCH=$(stat -c %Y "$work/apir-$version/image/rpm/apir.spec")
args=(--define "_topdir $work" --define "apir_version $version" --define '_buildhost localhost'
    --define 'use_source_date_epoch_as_buildtime 1' --define 'build_mtime_policy clamp_to_source_date_epoch')
[[ ! -e /etc/debian_version ]] || args+=(--nodeps --define 'debug_package %{nil}')
env -i PATH="$PATH" HOME="$HOME" LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    rpmbuild -ba "${args[@]}" "$work/apir-$version/image/rpm/apir.spec" >build/rpm/log 2>&1 9>&- || {
    tail -n 30 build/rpm/log >&2
    echo "rpm: rpmbuild failed; all it said is in build/rpm/log" >&2
    exit 1
}
find build/rpm -maxdepth 1 -name '*.rpm' -delete
find "$work/RPMS" "$work/SRPMS" -name '*.rpm' -exec mv -t build/rpm {} +
for package in build/rpm/*.rpm; do
    echo "rpm: $package"
done
