# SPDX-License-Identifier: Apache-2.0
# One archive that runs on a GPU machine with nothing but a driver; and, in pieces, what a VM takes
# there besides.
BUNDLE := build/bundle/apir-bundle.tar.gz
BUNDLE_VM := build/bundle/apir-bundle-vm.tar.gz

.PHONY: bundle bundle-vm check-bundle-vm
bundle: all
	@tests/bundle/bundle.sh $(O) $(BUNDLE)

bundle-vm: all
	@tests/vm/run.sh --prepare
	@tests/bundle/bundle.sh $(O) $(BUNDLE) $(BUNDLE_VM)

check-bundle-vm: bundle-vm
	@tests/bundle/vm-check.sh $(BUNDLE) $(BUNDLE_VM)
