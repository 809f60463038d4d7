# SPDX-License-Identifier: Apache-2.0
#
# Units that start programs: the built server, the built worker, and a worker with faults.
FAKE_WORKER := $(O)/tests/process/fake_worker
PROCESS_PROGRAMS := $(patsubst %.c,$(O)/%,$(wildcard tests/process/*_test.c))
UNIT_TESTS += $(PROCESS_PROGRAMS)

$(FAKE_WORKER): $(call objs,tests/process/fake_worker.c common/fdsock.c)
	$(link)
$(PROCESS_PROGRAMS) $(PROCESS_PROGRAMS:%=%.o): private PKGS := $(TEST_PKGS)
$(PROCESS_PROGRAMS:%=%.o): private EXTRA_CFLAGS := -D_GNU_SOURCE
$(PROCESS_PROGRAMS): %: %.o $(UNIT_OBJ) $(TEST_LIB) | $(RENDER_SERVER) $(WORKER) $(FAKE_WORKER)
	$(link)
