# SPDX-License-Identifier: Apache-2.0
#
# make check-cluster [ROW=name]: what reaches beyond one machine, in a VM; run.sh says more.

.PHONY: check-cluster
check-cluster: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' ROW='$(ROW)' tests/vm/cluster/run.sh
