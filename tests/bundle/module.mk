# SPDX-License-Identifier: Apache-2.0
# One archive that runs on a GPU machine with nothing but a driver.
BUNDLE := build/bundle/apir-bundle.tar.gz

.PHONY: bundle
bundle: all
	@tests/bundle/bundle.sh $(O) $(BUNDLE)
