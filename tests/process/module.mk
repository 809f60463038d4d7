# SPDX-License-Identifier: Apache-2.0
#
# Units that start programs: the built server, the built worker, and a worker with faults.
FAKE_WORKER := $(O)/tests/process/fake_worker
PROCESS_PROGRAMS := $(patsubst %.c,$(O)/%,$(wildcard tests/process/*_test.c))
UNIT_TESTS += $(PROCESS_PROGRAMS)

$(FAKE_WORKER): $(call objs,tests/process/fake_worker.c $(filter %/fdsock.c %/parent.c,$(call of_system,common)))
	$(link)
$(PROCESS_PROGRAMS) $(PROCESS_PROGRAMS:%=%.o): private PKGS := $(TEST_PKGS)
# A program with the plug-in's own objects, and ggml.
LIES_TEST := $(O)/tests/process/plugin_lies_test
LIES_PROGRAM := $(call objs,tests/process/plugin_program.c)
$(LIES_TEST) $(LIES_TEST).o $(LIES_PROGRAM): private PKGS := $(TEST_PKGS) ggml
$(LIES_TEST): private EXTRA_LIBS := -lggml-base -lm
$(LIES_TEST): %: %.o $(LIES_PROGRAM) $(UNIT_OBJ) $(TEST_LIB)
	$(link)
$(filter-out $(LIES_TEST),$(PROCESS_PROGRAMS)): %: %.o $(UNIT_OBJ) $(TEST_LIB) | $(RENDER_SERVER) $(WORKER) $(FAKE_WORKER)
	$(link)
