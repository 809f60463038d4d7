# SPDX-License-Identifier: Apache-2.0
#
# make check-images [ROW=name]: the layouts of images that people run, in a VM; run.sh says more.

.PHONY: check-images
check-images: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' tests/vm/images/run.sh
