# SPDX-License-Identifier: Apache-2.0
#
# apir: the CDI specs and the doctor.

APIR_VERSION ?= 0.1.0

CDI_LIB := $(call objs,cdi/json.c cdi/rules.c cdi/spec.c cdi/number.c cdi/text.c)
CDI_ENGINE_LIB := $(call objs, \
    cdi/engine.c \
    cdi/engine_containerd.c \
    cdi/engine_docker.c \
    cdi/engine_file.c \
    cdi/engine_podman.c \
    cdi/toml.c)
CDI_DOCTOR_LIB := $(call objs, \
    cdi/child.c \
    cdi/compute.c \
    cdi/doctor_chain.c \
    cdi/doctor_engine.c \
    cdi/doctor_files.c \
    cdi/handshake.c \
    cdi/host.c \
    cdi/install.c \
    cdi/nodes.c \
    cdi/session.c)
CDI_OBJS := $(CDI_LIB) $(CDI_ENGINE_LIB) $(CDI_DOCTOR_LIB) $(call objs, \
    cdi/doctor.c \
    cdi/config_check.c \
    cdi/doctor_image.c \
    cdi/engine_configure.c \
    cdi/generate.c \
    cdi/list.c \
    cdi/main.c \
    cdi/serve.c \
    cdi/validate.c)
# The plug-in's own way to the host, so that doctor walks the same one.
CDI_CLIENT_OBJS := $(call objs,frontend/client.c frontend/shared.c $(wildcard frontend/transport*.c) \
    protocol/ring.c protocol/messages.c protocol/log.c protocol/peer_copy.c protocol/error.c \
    protocol/fdsock.c)
$(filter $(O)/frontend/%,$(CDI_CLIENT_OBJS)): private EXTRA_CFLAGS := -isystem /usr/include/libdrm

$(CDI_OBJS): private PKGS := json-c libdrm
$(CDI_OBJS): private EXTRA_CFLAGS := -D_GNU_SOURCE -DAPIR_VERSION='"$(APIR_VERSION)"' \
    -DAPIR_PREFIX='"$(prefix)"'
$(call objs,cdi/install.c): $(PREFIX_STAMP)

$(O)/cdi/apir: private PKGS := json-c libdrm
$(O)/cdi/apir: $(CDI_OBJS) $(CDI_CLIENT_OBJS) $(CONFIG_OBJS) \
               $(call objs,backend/server_access.c)
	$(link)

ALL += $(O)/cdi/apir
HEADERS += $(wildcard cdi/*.h)

CDI_TESTS := spec rules json number text engine engine_file toml doctor
UNIT_TESTS += $(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test)
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private PKGS := json-c cmocka libdrm
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test.o): private EXTRA_CFLAGS := -D_GNU_SOURCE
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): private PKGS := json-c cmocka libdrm
$(CDI_TESTS:%=$(O)/tests/unit/cdi_%_test): $(O)/tests/unit/cdi_%_test: \
    $(O)/tests/unit/cdi_%_test.o $(CDI_LIB) $(CDI_ENGINE_LIB) $(CDI_DOCTOR_LIB) $(CDI_CLIENT_OBJS)
	$(link)

# The built server and worker, asked over a ring as a VM would ask them.
CDI_HOST_TEST := $(O)/tests/unit/cdi_host_test
UNIT_TESTS += $(CDI_HOST_TEST)
$(CDI_HOST_TEST): private PKGS := cmocka
$(CDI_HOST_TEST): $(call objs,tests/unit/cdi_host_test.c tests/unit/server_fixture.c cdi/host.c) \
                  $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                  | $(O)/backend/apir-render-server $(O)/backend/apir-worker
	$(link)

# The paths in the units are those of this call, so they are filled in here.
CDI_UNITS := apir-cdi-refresh.service apir-cdi-refresh.path

.PHONY: install-cdi
install: install-cdi
install-cdi: $(O)/cdi/apir cdi/apir.bash-completion
	install -D -m 0755 $(O)/cdi/apir $(DESTDIR)$(prefix)/bin/apir
	install -d -m 0755 $(DESTDIR)$(prefix)/lib/systemd/system
	for unit in $(CDI_UNITS); do \
	    sed 's|@bindir@|$(prefix)/bin|; s|@prefix@|$(prefix)|' cdi/systemd/$$unit.in \
	        >$(DESTDIR)$(prefix)/lib/systemd/system/$$unit; \
	    chmod 0644 $(DESTDIR)$(prefix)/lib/systemd/system/$$unit; \
	done
	install -D -m 0644 cdi/systemd/90-apir.rules $(DESTDIR)$(prefix)/lib/udev/rules.d/90-apir.rules
	install -D -m 0644 cdi/apir.bash-completion \
	    $(DESTDIR)$(prefix)/share/bash-completion/completions/apir
