# SPDX-License-Identifier: Apache-2.0
#
# apir: the CDI specs and the doctor.

APIR_VERSION ?= 0.1.0

CDI_LIB := $(call objs,cdi/json.c cdi/rules.c cdi/spec.c cdi/number.c)
CDI_OBJS := $(CDI_LIB) $(call objs, \
    cdi/compute.c \
    cdi/doctor.c \
    cdi/doctor_image.c \
    cdi/engine.c \
    cdi/generate.c \
    cdi/handshake.c \
    cdi/host.c \
    cdi/install.c \
    cdi/list.c \
    cdi/main.c \
    cdi/nodes.c \
    cdi/validate.c)

$(CDI_OBJS): private PKGS := json-c libdrm
$(CDI_OBJS): private EXTRA_CFLAGS := -D_GNU_SOURCE -DAPIR_VERSION='"$(APIR_VERSION)"' \
    -DAPIR_PREFIX='"$(prefix)"'

$(O)/cdi/apir: private PKGS := json-c libdrm
$(O)/cdi/apir: $(CDI_OBJS) $(PROTOCOL_RING_OBJS) $(call objs,protocol/error.c)
	$(link)

ALL += $(O)/cdi/apir
HEADERS += $(wildcard cdi/*.h)

CDI_TESTS := spec rules json engine number
UNIT_TESTS += $(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test)
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private PKGS := json-c cmocka
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private EXTRA_CFLAGS := -D_GNU_SOURCE
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): private PKGS := json-c cmocka
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): $(O)/tests/unit/cdi_%_test: \
    $(O)/tests/unit/cdi_%_test.o $(CDI_LIB) $(call objs,cdi/engine.c protocol/error.c)
	$(link)

# The built server and worker, asked over a ring as a VM would ask them.
CDI_HOST_TEST := $(O)/tests/unit/cdi_host_test
UNIT_TESTS += $(CDI_HOST_TEST)
$(CDI_HOST_TEST): private PKGS := cmocka
$(CDI_HOST_TEST): $(call objs,tests/unit/cdi_host_test.c tests/unit/server_fixture.c cdi/host.c) \
                  $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                  | $(O)/backend/apir-render-server $(O)/backend/apir-worker
	$(link)

.PHONY: install-cdi
install: install-cdi
install-cdi: $(O)/cdi/apir
	install -D -m 0755 $(O)/cdi/apir $(DESTDIR)$(prefix)/bin/apir
