# SPDX-License-Identifier: Apache-2.0
#
# Units: parts of the product called directly, a folder for each of its rooms. Those that start a
# server or a worker are in tests/process. check-units runs both.

UNIT_PROGRAMS := $(patsubst %.c,$(O)/%,$(wildcard tests/unit/*/*_test.c))
UNIT_TESTS += $(UNIT_PROGRAMS)

$(UNIT_PROGRAMS) $(UNIT_PROGRAMS:%=%.o): private PKGS := $(TEST_PKGS)
# The ring's alone are all that runs with TSan: nothing else need be built for that.
RING_TESTS := $(addprefix $(O)/tests/unit/protocol/,ring_test ring_threads_test)
$(RING_TESTS): %: %.o $(UNIT_OBJ) $(call objs,tests/unit/protocol/ring_ends.c protocol/ring.c \
    tests/lib/folder.c) $(call objs,$(call of_system,protocol))
	$(link)
# The host is the test's own here, and so the link to it.
ORDERS_TEST := $(O)/tests/unit/frontend/orders_test
$(ORDERS_TEST): %: %.o $(UNIT_OBJ) $(call objs,tests/unit/frontend/own_host.c tests/lib/folder.c frontend/graph/orders.c \
    frontend/graph/encode.c frontend/plugin/plugin.c common/log.c common/error.c) $(PROTOCOL_OBJS)
	$(link)
QUERY_TEST := $(O)/tests/unit/frontend/query_test
$(QUERY_TEST): %: %.o $(UNIT_OBJ) $(call objs,tests/unit/frontend/own_host.c tests/lib/folder.c frontend/graph/query.c \
    frontend/graph/encode.c frontend/plugin/plugin.c common/error.c) $(PROTOCOL_OBJS)
	$(link)
$(filter-out $(RING_TESTS) $(ORDERS_TEST) $(QUERY_TEST),$(UNIT_PROGRAMS)): %: %.o $(UNIT_OBJ) $(TEST_LIB)
	$(link)

# ggml's public headers and its builders, to hold the probe and the rules against.
$(addprefix $(O)/tests/unit/,protocol/probe_test.o backend/rules_test.o frontend/orders_test.o): private PKGS := ggml cmocka
$(O)/tests/unit/backend/rules_test $(ORDERS_TEST): private EXTRA_LIBS := -lggml-base -lm
$(O)/tests/unit/backend/rules_test: $(call objs,tests/hostile/fuzz/graph_ops.c)
# The test counts how often a client looks.
$(O)/tests/unit/frontend/wait_test: private EXTRA_LIBS := -Wl,--wrap=syscall
# The kernel is the test's own.
$(O)/tests/unit/frontend/virtgpu_test: private EXTRA_LIBS := -Wl,--wrap=ioctl
# The test counts and refuses what the decoder allocates.
$(O)/tests/unit/protocol/graph_test: private EXTRA_LIBS := -Wl,--wrap=malloc,--wrap=calloc

# What a socket takes only a part of.
$(O)/tests/unit/backend/server_framing_test: private EXTRA_LIBS := -Wl,--wrap=send,--wrap=sendmsg

# A race is between threads, and only the ring has two: the others gain nothing
# from TSan, and libraries that it has not instrumented look like races.
UNITS_RUN := $(if $(filter tsan,$(MODE)),$(O)/tests/unit/protocol/ring_threads_test,$(sort $(UNIT_TESTS)))

.PHONY: check-units
check-units: $(UNITS_RUN)
	@tests/unit/run.sh $(UNITS_RUN)
