# SPDX-License-Identifier: Apache-2.0
#
# make check-ramalama [ROW=name] [RAMALAMA=DIR]: what ramalama runs, in a VM; run.sh says more.

.PHONY: check-ramalama
check-ramalama: all vm-images image-$(IMAGE_ARCH)
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' RAMALAMA='$(RAMALAMA)' tests/ramalama/run.sh
