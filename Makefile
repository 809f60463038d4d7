# SPDX-License-Identifier: Apache-2.0
#
# One Makefile, not recursive: every folder adds its own targets in module.mk.
#
#   make            build everything            make check      all tests
#   make demo       the main job, in a real VM  make shell      a shell in the build root
#
# Debian forky holds everything that is built with and tested against. On a
# machine that is not forky (or lacks packages) each target runs inside a
# sysroot under build/, made on first use; nothing on the machine changes.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

MODE ?= release
ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
DESTDIR ?=
prefix ?= /usr
APIR_VERSION ?= 0.1.0
JOBS ?= $(shell nproc)

MODES := release debug asan tsan fuzz coverage
ifeq ($(filter $(MODE),$(MODES)),)
$(error MODE=$(MODE) is not one of: $(MODES))
endif

# ARCH=aarch64 on another machine cross-builds what machines of that architecture are given (CROSS
# below), with Debian's cross compiler, into a folder named after it. Libraries are Debian's arm64 ones.
MACHINE := $(shell uname -m)
ARCH := $(MACHINE)
ifeq ($(filter $(ARCH),$(MACHINE) aarch64),)
$(error ARCH=$(ARCH): a $(MACHINE) machine builds for itself and for aarch64)
endif
CROSS := $(filter-out $(MACHINE),$(ARCH))
ifneq ($(CROSS),)
ifeq ($(filter release debug,$(MODE)),)
$(error MODE=$(MODE) is not for ARCH=$(ARCH): what it builds is run on the machine itself)
endif
override CC := $(CROSS)-linux-gnu-gcc
PKG_CONFIG := PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS)-linux-gnu/pkgconfig:/usr/share/pkgconfig pkg-config
else
PKG_CONFIG := pkg-config
endif

# What systems have in ways of their own is in folders beside the header: linux/ and macos/, and posix/
# for what macOS has and Linux could do with. SYSTEM=macos cross-builds the host's part, SYSTEM=posix builds
# it for this system with what is in posix/ (docs/macos.md; tests/macos/run.sh says what else that takes).
SYSTEM ?= linux
SYSTEM_FOLDERS := linux posix macos
folders_linux := linux
folders_posix := posix linux
folders_macos := posix macos

# Targets that must work on the bare machine, before any sysroot exists.
OUTSIDE := sysroot sysroot-trixie npm-packages shell clean distclean
ifneq ($(shell sh tests/env/inside.sh && echo yes),yes)

# ---- outside: make the sysroot, then run the same goal in it ---------------
GOALS := $(or $(MAKECMDGOALS),all)
INNER_GOALS := $(filter-out $(OUTSIDE),$(GOALS))
# It makes do with a smaller root, and the first time what takes long goes side by side.
DEMO_ALONE := $(if $(filter-out demo,$(GOALS))$(SUITE)$(CROSS)$(VM_ARCH),,yes)
.PHONY: $(GOALS) $(OUTSIDE) inside
# Only the repository is seen in there, so what the caller names elsewhere is
# bound to a fixed place, and the variable says so.
CALLER_BINDS := $(if $(RUN),--bind '$(abspath $(RUN))' /run/caller/script) \
    $(if $(RAMALAMA),--bind '$(abspath $(RAMALAMA))' /run/caller/ramalama) \
    $(if $(VM_SHARE),--bind '$(abspath $(VM_SHARE))' /run/caller/share) \
    $(if $(VM_HOST_SCRIPT),--bind '$(abspath $(VM_HOST_SCRIPT))' /run/caller/host-script) \
    $(if $(BENCH_AGAINST),--bind '$(abspath $(BENCH_AGAINST))' /run/caller/against)
CALLER_VARS := $(if $(RUN),RUN=/run/caller/script) \
    $(if $(RAMALAMA),RAMALAMA=/run/caller/ramalama) \
    $(if $(VM_SHARE),VM_SHARE=/run/caller/share) \
    $(if $(VM_HOST_SCRIPT),VM_HOST_SCRIPT=/run/caller/host-script) \
    $(if $(BENCH_AGAINST),BENCH_AGAINST=/run/caller/against)
ifneq ($(INNER_GOALS),)
# One hand-over for all goals, so that -j and the order of goals stay make's.
$(INNER_GOALS): inside
# Two suites also want the virglrenderer of the Debian release before.
inside: sysroot $(if $(filter check check-system% nightly,$(GOALS)),sysroot-trixie) \
        $(if $(filter check check-system% check-hook check-ggml check-macos% bundle-ggml nightly,$(GOALS)),npm-packages) \
        | $(filter clean,$(GOALS))
	@tests/env/enter.sh $(CALLER_BINDS) $(MAKE) --no-print-directory $(if $(DEMO_ALONE),-j$$(($(JOBS) + 2))) $(INNER_GOALS) \
	    MODE=$(MODE) CC='$(CC)' $(MAKEOVERRIDES) $(CALLER_VARS)
endif
# Some targets take more than the rest: lists in tests/env/packages.d/ that are named after them. So
# does another ARCH, and a VM of it; what builds images builds for another one, and packages are built
# to be checked.
PACKAGE_LISTS := $(notdir $(wildcard tests/env/packages.d/*))
VM_LISTS := $(addprefix vm-,$(if $(filter demo check-ramalama,$(GOALS)),$(CROSS)) $(VM_ARCH))
IMAGE_GOALS := image image-amd64 image-arm64 check-image check-image-arm64 check-ramalama
QEMU_USER_GOALS := check-archs-arm64 check-options-arm64
WANTED_LISTS := $(GOALS) $(CROSS) $(VM_LISTS) \
    $(if $(filter $(IMAGE_GOALS),$(GOALS)),image aarch64) \
    $(if $(filter $(QEMU_USER_GOALS),$(GOALS)),aarch64 vm-aarch64) \
    $(if $(SUITE),deb) $(if $(filter check-packages,$(GOALS)),deb rpm installer aarch64)
sysroot:
	@tests/env/sysroot.sh $(if $(DEMO_ALONE),--demo)
	@tests/env/sysroot.sh --with $(if $(filter nightly,$(GOALS)),$(PACKAGE_LISTS),$(filter $(PACKAGE_LISTS),$(WANTED_LISTS)))
# A second, small tree: the virglrenderer of the Debian release before.
sysroot-trixie:
	@tests/env/sysroot.sh --trixie
# Third-party programs with a ggml of their own. Where they cannot be had, the tests say so.
NPM_PACKAGES := node-x64 node-x64-old node-x64-static node-x64-3.18.1 \
    $(if $(filter check-ggml bundle-ggml nightly,$(GOALS)),$(addprefix node-x64-,3.13.0 3.20.0 3.21.1)) \
    $(if $(filter check check-macos% nightly,$(GOALS)),zig-x64 mac-arm64) \
    $(if $(filter lavapipe gpu,$(DEVICE))$(filter bundle-ggml,$(GOALS)),\
        $(addprefix node-x64-vulkan-,3.6.0 3.13.0 3.18.1 3.20.0 3.21.1 3.22.1))
.PHONY: npm-packages
npm-packages:
	@for p in $(NPM_PACKAGES); do tests/system/hook/npm.sh $$p >/dev/null || true; done
shell: sysroot
	@tests/env/enter.sh bash -i
clean:
	rm -rf build/release-* build/debug-* build/asan-* build/tsan-* build/fuzz-* build/coverage-*
distclean:
	@tests/env/sysroot.sh --remove
	rm -rf --one-file-system build

else
# ---- inside: the real thing -------------------------------------------------
O := build/$(MODE)-$(if $(filter-out linux,$(SYSTEM)),$(SYSTEM)-)$(notdir $(CC))

WARN := -Wall -Wextra -Wconversion -Wvla -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
        -Wpointer-arith -Wundef -Werror
CFLAGS_release := -O2 -g -DNDEBUG -D_FORTIFY_SOURCE=2 -fstack-protector-strong
CFLAGS_debug   := -O0 -g3
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
CFLAGS_coverage := -O1 -g -fprofile-instr-generate -fcoverage-mapping
LDFLAGS_asan   := -fsanitize=address,undefined
LDFLAGS_tsan   := -fsanitize=thread
LDFLAGS_fuzz   := -fsanitize=address,undefined
# What macOS calls otherwise.
NAMES_macos := -Dst_mtim=st_mtimespec -Dst_ctim=st_ctimespec
# All that Linux has, with the numbers of C17 (c17.h).
DIALECT := -std=gnu17 -D_GNU_SOURCE= -include common/c17.h
# What is installed knows nothing of the folder it was built in.
BASE_CFLAGS := $(DIALECT) -fvisibility=hidden -fPIC -I. -ffile-prefix-map=$(CURDIR)=. $(WARN) $(NAMES_$(SYSTEM))
ALL_CFLAGS  := $(BASE_CFLAGS) $(CFLAGS_$(MODE)) $(CFLAGS)
LDFLAGS_linux := -Wl,-z,relro,-z,now -Wl,--as-needed
LDFLAGS_posix := $(LDFLAGS_linux)
ALL_LDFLAGS := $(LDFLAGS_$(SYSTEM)) $(LDFLAGS_$(MODE)) $(LDFLAGS)

# Short lines while building; V=1 shows the commands.
V ?= 0
ifeq ($(V),0)
SAY = @printf '  %-7s %s\n' '$(1)' '$@';
endif

# $(call objs,a.c b.c) -> the object files of these sources in this mode.
objs = $(patsubst %.c,$(O)/%.o,$(1))
# $(call of_system,ROOM) -> this system's sources of that room: of a name the first folder's.
of_system = $(call first_of,$(1)/,$(folders_$(SYSTEM)))
first_of = $(if $(2),$(call one_each,$(wildcard $(1)$(firstword $(2))/*.c),$(call first_of,$(1),$(wordlist 2,9,$(2)))))
one_each = $(1) $(filter-out $(addprefix %/,$(notdir $(1))),$(2))

# Each module.mk adds to these; `all` builds ALL, `make install` copies.
ALL :=
UNIT_TESTS :=
CLEAN_TARGETS :=

.PHONY: all
all: all-real

# What has the prefix in it depends on this: it changes with the prefix only.
PREFIX_STAMP := $(O)/prefix.stamp
.PHONY: FORCE
FORCE:
$(PREFIX_STAMP): FORCE
	@mkdir -p $(@D)
	@echo '$(prefix)' | cmp -s - $@ || echo '$(prefix)' >$@

# A target may set PKGS (pkg-config names) and EXTRA_CFLAGS / EXTRA_LIBS.
$(O)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call SAY,CC)$(CC) $(ALL_CFLAGS) $(if $(PKGS),$(shell $(PKG_CONFIG) --cflags $(PKGS))) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

# $(call program,target-path): links its prerequisites' objects and archives.
define link
@mkdir -p $(@D)
$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -o $@ $(filter %.o %.a,$^) $(ALL_LDFLAGS) $(if $(PKGS),$(shell $(PKG_CONFIG) --libs $(PKGS))) $(EXTRA_LIBS)
endef

include common/module.mk
include protocol/module.mk
include frontend/module.mk
include backend/module.mk
include hook/module.mk
include cdi/module.mk
include image/module.mk
include docs/module.mk
include tests/module.mk

# What is installed. Another architecture is given nothing else: tests run on this machine.
SHIPPED := $(PLUGIN) $(O)/hook/apir-hook $(HOOK_FILES) $(O)/cdi/apir $(RENDER_SERVER) $(WORKER) $(HOST_UNITS)
ifneq ($(CROSS),)
ALL := $(SHIPPED)
endif

.PHONY: all-real shipped clean install uninstall
all-real: $(ALL)
shipped: $(SHIPPED)
clean:
	rm -rf build/release-* build/debug-* build/asan-* build/tsan-* build/fuzz-* build/coverage-*
# In the build root these have nothing left to do.
.PHONY: sysroot npm-packages shell
sysroot npm-packages:
	@:
shell:
	@bash -i

# What a distribution packages: each folder adds its own files to `install`.
install: $(SHIPPED)

# What `install` would put there now, and the folders that are ours alone.
uninstall:
	@list=$$(mktemp -d); trap 'rm -rf "$$list"' EXIT; \
	$(MAKE) --no-print-directory install DESTDIR="$$list" >/dev/null; \
	(cd "$$list" && find . ! -type d -printf '%P\0') | (cd '$(or $(DESTDIR),/)' && xargs -0 rm -fv); \
	(cd "$$list" && find . -depth -type d -name apir -printf '%P\0') | \
	    (cd '$(or $(DESTDIR),/)' && xargs -0 -r rmdir --ignore-fail-on-non-empty)

# Every header must compile alone.
HEADERS := $(shell find common protocol frontend backend hook cdi tests -name '*.h' -not -path 'tests/hostile/fuzz/corpus/*')
.PHONY: check-headers
check-headers: $(patsubst %.h,$(O)/%.h.ok,$(HEADERS))
$(O)/%.h.ok: %.h
	@mkdir -p $(@D)
	$(call SAY,HEADER)$(CC) $(BASE_CFLAGS) -Wno-unused -fsyntax-only -include $< -x c /dev/null
	@touch $@

-include $(shell find $(O) -name '*.d' 2>/dev/null)
endif
