# SPDX-License-Identifier: Apache-2.0
# The library first: what others link is expanded at once.
include tests/lib/module.mk tests/lib/models/module.mk
include $(filter-out tests/lib/%,$(wildcard tests/*/module.mk tests/*/*/module.mk))

# What takes minutes; `nightly` has the rest. The kinds and the +: tests/steps.bash, tests/check.sh. Most suites run one
# after the other: the races of check-hook and check-attacks need a core for each side.
.PHONY: check check-targets check-names check-mutant check-mutate nightly
CHECK_STEPS := \
    'build:one=all -j$(JOBS)' \
    'build-clang:one=all CC=clang -j$(JOBS)' \
    'headers:one=check-headers -j$(JOBS)' \
    'targets=check-targets' \
    'names=check-names' \
    'format:one=check-format' \
    'layers=check-layers' \
    'units=check-units -j$(JOBS)' \
    'units-asan:again=check-units MODE=asan CC=clang -j$(JOBS)' \
    'ring-tsan:again=check-units MODE=tsan -j$(JOBS)' \
    'system-part=check-system-part -j$(JOBS)' \
    'hook=check-hook APIR_RACE_SECONDS=5 -j$(JOBS)' \
    'attacks=check-attacks APIR_RACE_SECONDS=5 -j$(JOBS)' \
    'mutant=check-mutant APIR_RACE_SECONDS=5' \
    'top=check-top' \
    '+host0=check-host0' \
    '+cdi=check-cdi' \
    '+macos-part=check-macos-part' \
    '+dispatch-part=check-dispatch-part' \
    '+options-part=check-options-part' \
    '+archs-part:upstream=check-archs-part' \
    '+ops-part:upstream=check-ops-part' \
    '+parity=check-parity' \
    '+differ:one=check-differ -j$(JOBS)' \
    'faults=check-faults-part -j$(JOBS)' \
    'vm=check-vm'
check:
	@MAKE='$(MAKE)' tests/check.sh $(CHECK_STEPS)

# Every target of HACKING.md builds what its scripts use.
check-targets:
	@tests/targets.sh

# What documents and comments name exists.
check-names:
	@tests/names.sh

# .clang-format, with the build root's own clang-format.
.PHONY: check-format
check-format:
	@find common protocol frontend backend hook cdi tests -name '*.[ch]' -not -path '*/corpus/*' | \
	    xargs clang-format --dry-run -Werror

# The order of rooms.
.PHONY: check-layers
check-layers:
	@tests/layers.sh

# One of the mutants of check-attacks and check-sandbox-mutants, another one for each commit.
check-mutant:
	@MAKE='$(MAKE)' tests/mutant-one.sh
# And whether those two tell what is noticed from what is not.
check-mutate:
	@MAKE='$(MAKE)' tests/mutate-test.sh

# What `check` runs a part of or nothing: the shorter ones first, the last one for hours. NIGHTLY="name..."
# takes some of them.
NIGHTLY_SUITES := \
    system=check-system \
    demo:one=demo \
    demo-nested:one=demo,VM_ACCEL=nested \
    demo-aarch64:one=demo,ARCH=aarch64 \
    demo-16k:one=demo,ARCH=aarch64,PAGES=16k \
    demo-bookworm:one=demo,SUITE=bookworm \
    demo-trixie:one=demo,SUITE=trixie \
    macos=check-macos \
    mutate=check-mutate \
    mutants-sandbox=check-sandbox-mutants \
    mutants-attacks=check-attacks,MUTATE=1 \
    faults=check-faults \
    dispatch=check-dispatch \
    soak:one=soak,MINUTES=30 \
    soak-classes:one=soak,MINUTES=30,CLASSES=4 \
    classes:again=check-classes \
    engines=check-engines \
    sandboxes=check-sandboxes \
    images=check-images \
    cluster=check-cluster \
    docs=check-docs \
    image=check-image \
    image-arm64=check-image-arm64 \
    ramalama=check-ramalama \
    ramalama-aarch64=check-ramalama,ARCH=aarch64 \
    packages=check-packages \
    hypervisors=check-hypervisors \
    bundle-vm=check-bundle-vm \
    options=check-options \
    ggml=check-ggml \
    archs-arm64:upstream=check-archs-arm64 \
    options-arm64=check-options-arm64 \
    ops:upstream=check-ops \
    archs:upstream=check-archs
nightly:
	@MAKE='$(MAKE)' tests/nightly.sh $(if $(NIGHTLY),$(foreach n,$(NIGHTLY), \
	    $(filter $(n)=% $(n):%,$(NIGHTLY_SUITES))),$(NIGHTLY_SUITES))
