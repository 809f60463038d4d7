# SPDX-License-Identifier: Apache-2.0

CONFIG_OBJS := $(call objs,$(wildcard backend/config/*.c))
$(CONFIG_OBJS): private PKGS := json-c

# The server: all but its main, then the program.
SERVER_OBJS := $(call objs,$(filter-out %/main.c $(SYSTEM_FOLDERS:%=backend/server/%/%),$(wildcard backend/server/*.c backend/server/*/*.c)) \
               $(call of_system,backend/server))
RENDER_SERVER := $(O)/backend/apir-render-server
SERVER_PARTS := $(call objs,backend/server/main.c) $(SERVER_OBJS) $(CONFIG_OBJS) $(COMMON_OBJS) \
                $(COMMON_JSON_OBJS) $(call objs,protocol/ring.c $(call of_system,protocol))
ALL += $(RENDER_SERVER)
SERVER_FLAGS := -DAPIR_VERSION=\"$(APIR_VERSION)\"
REPORT_OBJS := $(call objs,backend/server/seen/report.c)
$(REPORT_OBJS): private PKGS := json-c
$(REPORT_OBJS): private EXTRA_CFLAGS := $(SERVER_FLAGS)
$(call objs,backend/server/main.c): private EXTRA_CFLAGS := $(SERVER_FLAGS)
$(RENDER_SERVER): private PKGS := json-c
$(RENDER_SERVER): private EXTRA_LIBS := -lpthread
$(RENDER_SERVER): $(SERVER_PARTS)
	$(link)

# The worker, likewise.
SANDBOX_SRCS := $(if $(filter macos,$(SYSTEM)),$(call of_system,backend/worker/sandbox),$(wildcard backend/worker/sandbox/*.c))
WORKER_OBJS := $(call objs,$(filter-out %/main.c backend/worker/sandbox/% $(SYSTEM_FOLDERS:%=backend/worker/%/%), \
               $(wildcard backend/worker/*.c backend/worker/*/*.c)) $(SANDBOX_SRCS) \
               $(call of_system,backend/worker) $(call of_system,backend/worker/ggml))
WORKER := $(O)/backend/apir-worker
WORKER_PARTS := $(call objs,backend/worker/main.c) $(WORKER_OBJS) $(CONFIG_OBJS) $(PROTOCOL_OBJS) \
                $(COMMON_OBJS) $(COMMON_JSON_OBJS)
ALL += $(WORKER)
SANDBOX_PKGS := $(if $(filter-out macos,$(SYSTEM)),libcap libseccomp)
$(call objs,$(SANDBOX_SRCS)): private PKGS := $(SANDBOX_PKGS)
$(WORKER): private PKGS := json-c $(SANDBOX_PKGS)
$(WORKER): private EXTRA_LIBS := -ldl
$(WORKER): $(WORKER_PARTS)
	$(link)

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
