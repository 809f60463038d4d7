# SPDX-License-Identifier: Apache-2.0
#
# What the small build root of the bundle takes besides for a VM: QEMU with a display that needs no
# screen and no GPU (Mesa draws on the CPU), a kernel, and what tests/vm/run.sh calls. The VM's root
# is that same root. Sourced after root.bash; $root, $libdir, $top and $built are bundle.sh's.
# shellcheck shell=bash disable=SC2154

vm_root() {
    local kernels initramfs
    root_programs /usr/bin/qemu-system-x86_64 "$libdir"/qemu/ui-{opengl,sdl}.so \
        "$libdir"/qemu/hw-display-virtio-gpu{,-gl,-pci,-pci-gl}.so \
        /usr/bin/{cpio,flock,mkfs.erofs,setpriv}
    # Loaded by name: what SDL 2 is a front of, and Mesa by way of glvnd.
    root_programs "$libdir"/libSDL3.so.0 "$libdir"/libEGL_mesa.so.0
    root_files /usr/share/glvnd/egl_vendor.d/50_mesa.json /usr/share/seabios/bios-256k.bin \
        /usr/share/qemu/{kvmvapic,linuxboot_dma}.bin
    # run.sh takes the newest kernel, and names what it packs by the packages that there are.
    kernels=(/boot/vmlinuz-*)
    root_files "${kernels[-1]}" /var/lib/dpkg/status
    initramfs=$(compgen -G "build/vm/initramfs-x86_64-${kernels[-1]##*/vmlinuz-}-*") ||
        { echo "bundle: no initramfs; tests/vm/run.sh --prepare makes it" >&2 && return 1; }
    cp --parents "$initramfs" tests/vm/{run.sh,init,initramfs.sh,pack.sh} tests/bench/bundle/vm{,-guest}.sh "$top"
    install -D "$out/cdi/apir" "$built/cdi/apir"
    root_programs "$out/cdi/apir"
}
