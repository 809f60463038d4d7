# SPDX-License-Identifier: Apache-2.0
#
# make check-hypervisors [ROW=name]: ways to start a hypervisor with our server; run.sh says more.

.PHONY: check-hypervisors
check-hypervisors: all $(STREAM_PROXY) vm-images
	@MAKE='$(MAKE)' tests/vm/hypervisors/run.sh '$(O)' $(ROW)
