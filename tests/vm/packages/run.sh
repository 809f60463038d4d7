#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run.sh VERSION: the archive of the source, the packages made of it and the installer (`make check-packages`). First what can
# be told here, then Debian's packages in the test VM with systemd as its init (guest.sh). build/packages/ has
# what each row printed. The last line is `packages: N of M rows pass`. ROW="NAME..." runs some; those in the VM
# want what rows before them have left: "install spec" at least.
set -uo pipefail
cd "$(dirname "$0")/../../.." || exit 1
sh tests/env/inside.sh || exec make check-packages
version=$1
ROWS=build/packages
rm -rf "$ROWS"
mkdir -p "$ROWS" build/vm
# shellcheck source=tests/vm/packages/lib.sh
. tests/vm/packages/lib.sh
# shellcheck source=tests/vm/check-prepare.sh
. tests/vm/check-prepare.sh
work=$(mktemp -d build/vm/packages-XXXXXX)
trap 'rm -rf "$work"' EXIT

export MAKEFLAGS='--silent --no-print-directory'

# The rows of this file and of guest.sh: one that nobody has seen pass has failed.
total=$(cat tests/vm/packages/{run,guest}.sh | grep -c '^row [a-z]')
[[ -z ${ROW-} ]] || total=$(wc -w <<<"$ROW")

packages() { # ARCHITECTURE: its packages, without those of debug symbols
    find build/deb -name "*_${version}-*_$1.deb" ! -name '*-dbgsym_*' | sort
}
files() { (cd "$1" && find . ! -type d -printf '/%P\n' | sort); }
# With another time zone and another mask.
again() { # COMMAND...
    (umask 077 && TZ=Asia/Tokyo LC_ALL=C "$@")
}

row_version() {
    local program
    for program in cdi/apir backend/apir-render-server hook/apir-hook; do
        "$OUT/$program" --version | tee /dev/stderr | grep -qE "^[a-z-]+ ${version//./\\.}( |\$)"
    done
    [[ $(sed -n 's/^## \[\([0-9.]*\)\] - [0-9-]*$/\1/p' docs/CHANGELOG.md | head -n 1) == "$version" ]]
}
row version "programs and docs/CHANGELOG.md name the Makefile's version"

row_dist() {
    local name=apir-$version
    cp "build/dist/$name.tar.xz" "$work/first.tar.xz"
    again make dist
    cmp "$work/first.tar.xz" "build/dist/$name.tar.xz"
    tar -tf "build/dist/$name.tar.xz" | grep -v '/$' | sed "s|^$name/||" | sort >"$work/in-archive"
    git -c safe.directory='*' -c core.quotePath=off ls-tree -r --name-only HEAD | sort >"$work/in-commit"
    same 'the archive is not the commit' "$work/in-commit" "$work/in-archive"
}
row dist 'the archive of the source has what the commit has, the same bytes twice'

row_deb_twice() {
    local package
    mkdir "$work/first"
    packages "$DEB_ARCH" | xargs cp -t "$work/first"
    again make deb
    for package in $(packages "$DEB_ARCH"); do
        cmp "$package" "$work/first/${package##*/}"
    done
    [[ $(packages "$DEB_ARCH" | wc -l) -eq 4 ]]
}
row deb-twice 'built again in another folder: the same bytes'

row_lintian() {
    lintian --allow-root --display-info --fail-on error,warning,info \
        "build/deb/apir_${version}-0apir1_$DEB_ARCH.changes" | tee "$work/lintian"
    [[ ! -s $work/lintian ]]
}
row lintian 'lintian finds nothing, of its hints neither'

row_contents() {
    local package name
    make install DESTDIR="$PWD/$work/installed" prefix=/usr
    files "$work/installed" >"$work/wanted"
    for package in $(packages "$DEB_ARCH"); do
        name=${package##*/}
        dpkg-deb -x "$package" "$work/${name%%_*}"
        files "$work/${name%%_*}" | grep -vE '^/usr/share/(doc|lintian)/'
    done >"$work/packed"
    sort "$work/packed" | uniq -d >"$work/twice"
    [[ ! -s $work/twice ]] || die "in two packages: $(cat "$work/twice")"
    # Manual pages are packed; the plug-in is in its architecture's folder, and a link leads there.
    sed -E 's|(/man/.*)\.gz$|\1|' "$work/packed" | grep -vE '^/usr/lib/[^/]+-linux-gnu/apir/libggml-apir\.so$|^/etc/apir/' |
        sort >"$work/got"
    same 'not what make install installs' "$work/wanted" "$work/got"
    cmp "$work/apir-guest/usr/lib/systemd/system/apir-cdi-refresh.service" \
        "$work/installed/usr/lib/systemd/system/apir-cdi-refresh.service"
    [[ $(stat -c %a "$work/apir-guest/usr/libexec/apir/apir-hook") == 711 ]]
    find "$work"/{apir,apir-guest,apir-host,libggml-apir} ! -type l -perm /022 >"$work/open"
    [[ ! -s $work/open ]]
}
row contents "the packages' files are those of make install, none missing, none twice"

row_rpm() {
    local package packages
    packages=$(find build/rpm -name '*.rpm' ! -name '*.src.rpm')
    mkdir "$work/first-rpm"
    # shellcheck disable=SC2086 # words on purpose
    cp -t "$work/first-rpm" $packages
    again make rpm
    for package in $packages; do
        cmp "$package" "$work/first-rpm/${package##*/}"
    done
    # shellcheck disable=SC2086 # words on purpose
    rpm -qp --queryformat '%{NAME} %{VERSION} %{ARCH}\n' $packages | sort >"$work/rpms"
    printf "%s $version $(uname -m)\n" apir apir-guest apir-host libggml-apir >"$work/rpms.wanted"
    same 'not these packages' "$work/rpms.wanted" "$work/rpms"
    # Without the folders, and what each distribution adds of its own.
    for package in $packages; do
        rpm -qlvp "$package" | awk '!/^d/ { print $9 }'
    done | grep -vE '^/usr/(share/(doc|licenses)|lib/\.build-id|lib/debug|src/debug)/' | sort >"$work/rpm-files"
    sed -E 's|/[a-z0-9_]+-linux-gnu/|/|' "$work/packed" | sort -u >"$work/deb-files"
    same "not the files of Debian's packages" "$work/deb-files" "$work/rpm-files"
    rpm -qlvp build/rpm/apir-guest-*.rpm | grep -E '^-rwx--x--x .* /usr/libexec/apir/apir-hook$'
    rpm -qp --configfiles build/rpm/apir-host-*.rpm | grep -x /etc/apir/backend.json
}
row rpm "rpm's packages have the files of Debian's, and the same bytes twice (they are not installed: nothing here has rpm)"

row_multiarch() {
    local foreign
    foreign=$(packages "$FOREIGN_ARCH" | grep /libggml-apir_)
    dpkg-deb -x "$foreign" "$work/foreign"
    (cd "$work/foreign" && find . -type f) | while read -r file; do
        [[ ! -e $work/libggml-apir/$file ]] || cmp "$work/foreign/$file" "$work/libggml-apir/$file"
    done
    file -b "$work"/foreign/usr/lib/*/apir/libggml-apir.so | grep -F "${FOREIGN_MACHINE:?}"
}
row multiarch 'libggml-apir of another architecture lies beside ours'

row_installer_twice() {
    cp "build/image/installer-$DEB_ARCH.tar" "$work/installer.tar"
    again make installer
    cmp "$work/installer.tar" "build/image/installer-$DEB_ARCH.tar"
}
row installer-twice 'the installer image made again: the same bytes'

# ---- in the VM --------------------------------------------------------------
# The packages of a lower version: these, with another number and a file more.
older() {
    local package root name
    mkdir -p "$work/share/old" "$work/share/new"
    packages "$DEB_ARCH" | xargs cp -t "$work/share/new"
    packages "$FOREIGN_ARCH" | grep /libggml-apir_ | xargs cp -t "$work/share"
    for package in $(packages "$DEB_ARCH"); do
        root=$work/older
        rm -rf "$root"
        dpkg-deb -R "$package" "$root"
        sed -i "s/${version//./\\.}-0apir1/0.0.1-0apir1/g" "$root/DEBIAN/control"
        name=$(sed -n 's/^Package: //p' "$root/DEBIAN/control")
        mkdir -p "$root/usr/lib"
        touch "$root/usr/lib/$name-of-a-lower-version"
        dpkg-deb --root-owner-group -b "$root" "$work/share/old"
    done
}
older >"$ROWS/older.log" 2>&1 || exit 1
prepare_models build/models/vm && prepare_config "$work/backend.json" || exit 1
cp "$work/backend.json" "$work/share/backend.json"
cp build/models/vm/first.gguf build/models/vm/model.gguf
cp "build/image/installer-$DEB_ARCH.tar" "$work/share/installer.tar"
mkdir "$work/share/rows"
env APIR_CONFIG="$PWD/$work/backend.json" VM_SHARE="$PWD/$work/share" VM_TIMEOUT=1800 VM_INIT=systemd \
    VM_DISKS='models=build/models/vm' VM_RENDER_SERVER="$OUT/backend/apir-render-server" \
    tests/vm/run.sh tests/vm/packages/guest.sh "$version" "$OUT" "${ROW-}"
cat "$work/share/rows/rows" >>"$ROWS/rows"
find "$work/share/rows" -name '*.log' -exec cp -t "$ROWS" {} +

passed=$(sort -u "$ROWS/rows" | grep -c '^ok ')
echo "packages: $passed of $total rows pass"
[[ $passed -eq $total ]]
