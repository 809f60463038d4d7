# SPDX-License-Identifier: Apache-2.0
#
# apir: the CDI specs and the doctor.

APIR_VERSION ?= 0.1.0

CDI_LIB := $(call objs,cdi/json.c cdi/rules.c cdi/spec.c)
CDI_OBJS := $(CDI_LIB) $(call objs,cdi/main.c cdi/generate.c cdi/list.c cdi/validate.c \
    cdi/doctor.c cdi/doctor_image.c cdi/nodes.c cdi/handshake.c cdi/compute.c cdi/engine.c cdi/install.c)

$(CDI_OBJS): private PKGS := json-c libdrm
$(CDI_OBJS): private EXTRA_CFLAGS := -D_GNU_SOURCE -DAPIR_VERSION='"$(APIR_VERSION)"' \
    -DAPIR_PREFIX='"$(prefix)"'

$(O)/cdi/apir: private PKGS := json-c libdrm
$(O)/cdi/apir: $(CDI_OBJS) $(call objs,protocol/error.c)
	$(link)

ALL += $(O)/cdi/apir
HEADERS += $(wildcard cdi/*.h)

CDI_TESTS := spec rules json engine
UNIT_TESTS += $(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test)
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private PKGS := json-c cmocka
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private EXTRA_CFLAGS := -D_GNU_SOURCE
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): private PKGS := json-c cmocka
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): $(O)/tests/unit/cdi_%_test: \
    $(O)/tests/unit/cdi_%_test.o $(CDI_LIB) $(call objs,cdi/engine.c protocol/error.c)
	$(link)

.PHONY: install-cdi
install: install-cdi
install-cdi: $(O)/cdi/apir
	install -D -m 0755 $(O)/cdi/apir $(DESTDIR)$(prefix)/bin/apir
