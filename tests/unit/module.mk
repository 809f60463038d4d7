# SPDX-License-Identifier: Apache-2.0
#
# Units of protocol/, and of those parts of worker and plug-in that stand alone; other
# folders' units are in their own module.mk. check-units runs them all.

HEADERS += $(addprefix tests/unit/,unit.h message_table.h graph_write.h ring_ends.h worker_guest.h)

PROTOCOL_UNITS := wire messages ring ring_threads graph fdsock error_log probe rules snapshot peer_copy \
                  choice expect silence worker_device worker_buffer
PROTOCOL_UNIT_PROGRAMS := $(PROTOCOL_UNITS:%=$(O)/tests/unit/%_test)
UNIT_TESTS += $(PROTOCOL_UNIT_PROGRAMS)

$(PROTOCOL_UNIT_PROGRAMS): private PKGS := cmocka
# ggml's public headers, to hold the probe and the rules against.
$(O)/tests/unit/probe_test.o $(O)/tests/unit/rules_test.o: private PKGS := ggml
$(PROTOCOL_UNIT_PROGRAMS): $(O)/tests/unit/%_test: $(O)/tests/unit/%_test.o
	$(link)
$(O)/tests/unit/messages_test: $(call objs,protocol/messages.c)
$(O)/tests/unit/ring_test $(O)/tests/unit/ring_threads_test: \
    $(call objs,protocol/ring.c tests/unit/ring_ends.c)
$(O)/tests/unit/graph_test: $(call objs,protocol/graph.c)
$(O)/tests/unit/fdsock_test: $(PROTOCOL_FD_OBJS)
$(O)/tests/unit/error_log_test: $(PROTOCOL_PROG_OBJS)
$(O)/tests/unit/probe_test: $(PROTOCOL_PROBE_OBJS)
$(O)/tests/unit/rules_test: private EXTRA_LIBS := -lggml-base -lm
$(O)/tests/unit/rules_test: $(call objs,$(RULES) tests/fuzz/graph_ops.c)
$(O)/tests/unit/snapshot_test: $(call objs,frontend/snapshot.c)
$(O)/tests/unit/peer_copy_test: $(call objs,protocol/peer_copy.c)
$(O)/tests/unit/choice_test: $(call objs,frontend/choice.c)
$(O)/tests/unit/worker_buffer_test: $(call objs,backend/worker_ggml_buffer.c)
$(O)/tests/unit/worker_device_test: $(call objs,backend/worker_device.c) $(PROTOCOL_PROG_OBJS)
# The test counts and refuses what the decoder allocates.
$(O)/tests/unit/graph_test: private EXTRA_LIBS := -Wl,--wrap=malloc,--wrap=calloc

# The server's places for looking, and the worker as a guest without manners sees it.
SPIN_TEST := $(O)/tests/unit/server_spin_test
PAGE_TEST := $(O)/tests/unit/server_page_test
WORKER_TESTS := $(addprefix $(O)/tests/unit/worker_,graphs_test hostile_blobs_test hostile_streams_test \
    work_test)
UNIT_TESTS += $(SPIN_TEST) $(PAGE_TEST) $(WORKER_TESTS)
$(SPIN_TEST) $(PAGE_TEST) $(WORKER_TESTS): private PKGS := cmocka json-c
$(SPIN_TEST): $(call objs,tests/unit/server_spin_test.c backend/server_spin.c backend/server_shm.c backend/server_loop.c \
                backend/server_page.c)
	$(link)
$(PAGE_TEST): $(call objs,tests/unit/server_page_test.c backend/server_page.c backend/server_ring.c backend/server_shm.c \
                backend/server_loop.c)
	$(link)
$(WORKER_TESTS): %: %.o $(call objs,tests/unit/worker_guest.c tests/unit/server_fixture.c) \
                 $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                 | $(O)/backend/apir-render-server $(O)/backend/apir-worker
	$(link)

# A race is between threads, and only the ring has two: the others gain nothing
# from TSan, and libraries that it has not instrumented look like races.
UNITS_RUN := $(if $(filter tsan,$(MODE)),$(O)/tests/unit/ring_threads_test,$(sort $(UNIT_TESTS)))

.PHONY: check-units
check-units: $(UNITS_RUN)
	@tests/unit/run.sh $(UNITS_RUN)
