# SPDX-License-Identifier: Apache-2.0
#
# apir: the CDI specs and the doctor.

CDI_OBJS := $(call objs,$(wildcard cdi/*.c cdi/*/*.c))
$(CDI_OBJS): private PKGS := json-c libdrm
$(CDI_OBJS): private EXTRA_CFLAGS := -DAPIR_VERSION='"$(APIR_VERSION)"' -DAPIR_PREFIX='"$(prefix)"'
$(call objs,cdi/install.c): $(PREFIX_STAMP)

# With the plug-in's own way to the host, so that doctor walks the same one.
CDI_PARTS := $(CDI_OBJS) $(LINK_OBJS) $(PROTOCOL_OBJS) $(CONFIG_OBJS) $(COMMON_OBJS) \
             $(COMMON_JSON_OBJS) $(COMMON_IMAGE_OBJS) $(call objs,common/oci/cdi_names.c common/oci/cdi_rules.c common/oci/cdi_devices.c) \
             $(call objs,backend/server/unix/access.c)
$(O)/cdi/apir: private PKGS := json-c libdrm
$(O)/cdi/apir: $(CDI_PARTS)
	$(link)
# For machines that have no other library than the C library: image/installer/.
$(O)/cdi/apir-alone: private EXTRA_LIBS := -Wl,-Bstatic -ljson-c -ldrm -Wl,-Bdynamic
$(O)/cdi/apir-alone: $(CDI_PARTS)
	$(link)
CDI_PROGRAM := $(O)/cdi/apir

ALL += $(O)/cdi/apir

# The paths in the units are those of this call, so they are filled in here.
CDI_UNITS := apir-cdi-refresh.service apir-cdi-refresh.path

.PHONY: install-cdi
install: install-cdi
install-cdi: $(CDI_PROGRAM) cdi/apir.bash-completion
	install -D -m 0755 $(CDI_PROGRAM) $(DESTDIR)$(prefix)/bin/apir
	install -d -m 0755 $(DESTDIR)$(prefix)/lib/systemd/system
	for unit in $(CDI_UNITS); do \
	    sed 's|@bindir@|$(prefix)/bin|; s|@prefix@|$(prefix)|' cdi/systemd/$$unit.in \
	        >$(DESTDIR)$(prefix)/lib/systemd/system/$$unit; \
	    chmod 0644 $(DESTDIR)$(prefix)/lib/systemd/system/$$unit; \
	done
	install -D -m 0644 cdi/systemd/90-apir.rules $(DESTDIR)$(prefix)/lib/udev/rules.d/90-apir.rules
	install -D -m 0644 cdi/apir.bash-completion \
	    $(DESTDIR)$(prefix)/share/bash-completion/completions/apir
