# SPDX-License-Identifier: Apache-2.0

# --- server ---
HEADERS += $(wildcard backend/server_*.h backend/config*.h) tests/unit/server_fixture.h \
           tests/unit/unix_client.h

SERVER_OBJS := $(call objs,backend/server_loop.c backend/server_page.c backend/server_peer.c backend/server_child.c \
                 backend/server_ring.c backend/server_shm.c backend/server_spin.c backend/server_fence.c backend/server_worker.c \
                 backend/server_account.c backend/server_claims.c backend/server_limits.c \
                 backend/server_context.c backend/server_virgl.c backend/server_stock.c backend/server_client.c \
                 backend/server_unix.c backend/server_closer.c backend/server_access.c backend/server_listen.c backend/root.c)
CONFIG_OBJS := $(call objs,backend/config.c backend/config_keys.c cdi/json.c)

RENDER_SERVER := $(O)/backend/apir-render-server
ALL += $(RENDER_SERVER)
$(RENDER_SERVER): PKGS := json-c
$(RENDER_SERVER): EXTRA_LIBS := -lpthread
SERVER_PARTS := $(call objs,backend/main.c) $(SERVER_OBJS) $(CONFIG_OBJS) $(PROTOCOL_PROG_OBJS) \
                $(PROTOCOL_FD_OBJS) $(call objs,protocol/ring.c)
$(RENDER_SERVER): $(SERVER_PARTS)
	$(link)

# The tests run the server and a worker with faults as real processes.
SERVER_TESTS := server_client server_context server_unix server_listen server_worker server_stock server_fence server_config \
                server_limits
SERVER_TEST_PROGRAMS := $(SERVER_TESTS:%=$(O)/tests/unit/%_test)
FAKE_WORKER := $(O)/tests/unit/fake_worker
UNIT_TESTS += $(SERVER_TEST_PROGRAMS)

$(FAKE_WORKER): $(call objs,tests/unit/fake_worker.c) $(PROTOCOL_FD_OBJS)
	$(link)
$(SERVER_TEST_PROGRAMS): PKGS := cmocka json-c
$(O)/tests/unit/server_unix_test $(O)/tests/unit/server_listen_test: \
    $(call objs,tests/unit/unix_client.c)
$(O)/tests/unit/server_limits_test: $(SERVER_OBJS) $(call objs,protocol/ring.c)
$(O)/tests/unit/unix_client.o: PKGS := cmocka
$(SERVER_TEST_PROGRAMS): $(O)/tests/unit/%_test: $(O)/tests/unit/%_test.o \
                         $(call objs,tests/unit/server_fixture.c backend/server_fence.c \
                         backend/server_page.c) \
                         $(CONFIG_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) \
                         | $(RENDER_SERVER) $(FAKE_WORKER)
	$(link)
# --- end server ---

# --- worker ---
HEADERS += $(wildcard backend/worker*.h)
# The validator of graphs.
RULES := backend/worker_rules.c backend/worker_rules_basic.c backend/worker_rules_image.c \
         backend/worker_rules_model.c
WORKER := $(O)/backend/apir-worker
ALL += $(WORKER)
WORKER_OBJS := $(call objs,backend/worker_blob.c backend/worker_device.c backend/worker_dispatch.c \
                 backend/worker_ggml.c backend/worker_ggml_buffer.c \
                 backend/worker_ggml_graph.c backend/worker_ggml_progress.c backend/worker_vulkan.c \
                 backend/worker_graph.c backend/worker_limits.c $(RULES) backend/worker_stream.c \
                 backend/root.c backend/worker_sandbox.c backend/worker_sandbox_cache.c \
                 backend/worker_sandbox_calls.c backend/worker_sandbox_files.c \
                 backend/worker_transfer.c)
$(WORKER): PKGS := json-c libcap libseccomp
$(WORKER): EXTRA_LIBS := -ldl
WORKER_PARTS := $(call objs,backend/worker_main.c) $(WORKER_OBJS) $(CONFIG_OBJS) \
                $(PROTOCOL_RING_OBJS) $(PROTOCOL_PROG_OBJS) $(PROTOCOL_FD_OBJS) $(PROTOCOL_PROBE_OBJS)
$(WORKER): $(WORKER_PARTS)
	$(link)
# --- end worker ---

# --- systemd units of the host without a VM ---
# Both from one text: the machine's own, and the templates for a class of containers (%i).
HOST_UNITS := $(addprefix $(O)/backend/systemd/apir-host,.socket .service @.socket @.service)
ALL += $(HOST_UNITS)
$(O)/backend/systemd/apir-host.%: backend/systemd/apir-host.%.in $(PREFIX_STAMP)
	@mkdir -p $(@D)
	$(call SAY,GEN)sed -e 's|@libexecdir@|$(prefix)/libexec|' \
	    -e 's/@of_class@//; s/@dash@//; s/@at@//; /@config@/d' $< >$@
$(O)/backend/systemd/apir-host@.%: backend/systemd/apir-host.%.in $(PREFIX_STAMP)
	@mkdir -p $(@D)
	$(call SAY,GEN)sed -e 's|@libexecdir@|$(prefix)/libexec|' \
	    -e 's/@of_class@/ (%i)/; s/@dash@/-%i/; s/@at@/@%i/' \
	    -e 's|@config@|Environment=APIR_CONFIG=/etc/apir/backend-%i.json|' $< >$@

.PHONY: install-backend
install: install-backend
install-backend: $(RENDER_SERVER) $(WORKER) $(HOST_UNITS)
	install -D -m 0755 $(RENDER_SERVER) $(DESTDIR)$(prefix)/libexec/apir/apir-render-server
	install -D -m 0755 $(WORKER) $(DESTDIR)$(prefix)/libexec/apir/apir-worker
	install -d -m 0755 $(DESTDIR)$(prefix)/lib/systemd/system
	install -m 0644 $(HOST_UNITS) $(DESTDIR)$(prefix)/lib/systemd/system
	install -D -m 0644 backend/systemd/apir.sysusers.conf $(DESTDIR)$(prefix)/lib/sysusers.d/apir.conf
	install -D -m 0644 backend/systemd/apir.tmpfiles.conf $(DESTDIR)$(prefix)/lib/tmpfiles.d/apir.conf
