# SPDX-License-Identifier: Apache-2.0
# One archive that runs on a GPU machine with nothing but a driver; and, in pieces, what a VM takes
# there besides, and other versions of ggml.
BUNDLE := build/bundle/apir-bundle.tar.gz
BUNDLE_VM := build/bundle/apir-bundle-vm.tar.xz
BUNDLE_GGML := build/bundle/apir-bundle-ggml.tar.xz

.PHONY: bundle bundle-vm bundle-ggml check-bundle-vm
bundle: all
	@tests/bench/bundle/bundle.sh $(O) $(BUNDLE)

bundle-vm: all
	@tests/vm/run.sh --prepare
	@tests/bench/bundle/bundle.sh $(O) $(BUNDLE) vm $(BUNDLE_VM)

bundle-ggml: all
	@tests/bench/bundle/bundle.sh $(O) $(BUNDLE) ggml $(BUNDLE_GGML)

check-bundle-vm: bundle-vm
	@tests/bench/bundle/vm-check.sh $(BUNDLE) $(BUNDLE_VM)
