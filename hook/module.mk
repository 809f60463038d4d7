# SPDX-License-Identifier: Apache-2.0
#
# apir-hook: static, since it runs before the container has a root of its own
# and must load nothing from anywhere. Its default plug-in is the path that a spec
# takes for granted (CDI_PLUGIN_CONTAINER); specs name any other.

HOOK_OBJS := $(call objs,$(wildcard hook/*.c))

# The sanitizers' runtimes are shared libraries.
HOOK_STATIC := $(if $(filter asan tsan fuzz,$(MODE)),,-static-pie)

HOOK_FLAGS := -DAPIR_VERSION=\"$(APIR_VERSION)\" \
    -DHOOK_PLUGIN=\"/usr/lib/apir/libggml-apir.so\" -DHOOK_SPEC=\"/etc/cdi/apir.json\"
$(HOOK_OBJS): private PKGS := json-c libcap
$(HOOK_OBJS): private EXTRA_CFLAGS := $(HOOK_FLAGS)

HOOK_PARTS := $(HOOK_OBJS) $(COMMON_IMAGE_OBJS) $(COMMON_OCI_OBJS) $(COMMON_JSON_OBJS) \
              $(call objs,common/error.c common/file.c common/text.c)
$(O)/hook/apir-hook: private PKGS := json-c libcap
$(O)/hook/apir-hook: private EXTRA_LIBS := $(HOOK_STATIC)
$(O)/hook/apir-hook: $(HOOK_PARTS)
	$(link)

# Neither is in a folder that engines read by themselves, since an image, or whoever writes a pod,
# can have the annotation too: podman is told of the first one by `apir engine configure podman`,
# and only where its version is one that is safe. CRI-O and `podman build` know no precreate stage
# and refuse the whole folder for one, so createRuntime, which all engines know, has a folder of its
# own (and a name of its own: of two files of one name podman reads the one of the later folder).
HOOK_FILES := $(O)/hook/90-apir.json $(O)/hook/90-apir-precreate.json
$(HOOK_FILES): $(O)/hook/%.json: hook/%.json.in $(PREFIX_STAMP)
	@mkdir -p $(@D)
	sed 's|@libexecdir@|$(prefix)/libexec|' $< >$@

ALL += $(O)/hook/apir-hook $(HOOK_FILES)

.PHONY: install-hook
install: install-hook
# Nobody but root reads the hook (0711), so nobody looks into it from its first instruction on.
install-hook: $(O)/hook/apir-hook $(HOOK_FILES)
	install -D -m 0711 $(O)/hook/apir-hook $(DESTDIR)$(prefix)/libexec/apir/apir-hook
	install -D -m 0644 $(O)/hook/90-apir.json \
	    $(DESTDIR)$(prefix)/share/apir/hooks.d-runtime/90-apir.json
	install -D -m 0644 $(O)/hook/90-apir-precreate.json \
	    $(DESTDIR)$(prefix)/share/apir/hooks.d/90-apir-precreate.json
