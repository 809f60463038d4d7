# SPDX-License-Identifier: Apache-2.0
#
# make check-docs [DOC='file...']: what the documents tell a reader to type; run.sh says more.

.PHONY: check-docs
check-docs: all vm-images
	@MAKE='$(MAKE)' OUT='$(O)' DOC='$(DOC)' CHECK="$(subst ',,$(CHECK_STEPS))" NIGHTLY='$(NIGHTLY_SUITES)' \
	    tests/docs/run.sh
