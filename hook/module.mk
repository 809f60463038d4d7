# SPDX-License-Identifier: Apache-2.0
#
# apir-hook: static, since it runs before the container has a root of its own
# and must load nothing from anywhere. Its default plug-in is the path that a spec
# takes for granted (CDI_PLUGIN_CONTAINER); specs name any other.

# What is known of an image; `apir doctor --image` shows the same.
HOOK_LOOK := $(call objs,hook/rootfs.c hook/find.c hook/places.c hook/image.c hook/ggml.c \
    hook/elf.c)
HOOK_LIB := $(HOOK_LOOK) $(call objs,hook/state.c hook/request.c hook/spec.c \
    hook/mounts.c hook/place.c hook/inject.c hook/container.c hook/cgroup.c hook/precreate.c \
    hook/log.c hook/limit.c cdi/json.c cdi/rules.c cdi/text.c protocol/error.c)
HOOK_OBJS := $(call objs,hook/main.c hook/rights.c hook/create_container.c \
    hook/create_runtime.c) \
    $(filter $(O)/hook/%,$(HOOK_LIB))

# The sanitizers' runtimes are shared libraries.
HOOK_STATIC := $(if $(filter asan tsan fuzz,$(MODE)),,-static-pie)

$(HOOK_OBJS): private PKGS := json-c libcap
HOOK_FLAGS := -D_GNU_SOURCE -DAPIR_VERSION=\"$(APIR_VERSION)\" \
    -DHOOK_PLUGIN=\"/usr/lib/apir/libggml-apir.so\" -DHOOK_SPEC=\"/etc/cdi/apir.json\"
$(HOOK_OBJS): private EXTRA_CFLAGS := $(HOOK_FLAGS)

$(O)/hook/apir-hook: private PKGS := json-c libcap
$(O)/hook/apir-hook: private EXTRA_LIBS := $(HOOK_STATIC)
HOOK_PARTS := $(HOOK_OBJS) $(filter-out $(O)/hook/%,$(HOOK_LIB))
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

$(O)/cdi/apir: $(HOOK_LOOK)

ALL += $(O)/hook/apir-hook $(HOOK_FILES)
HEADERS += $(wildcard hook/*.h) tests/unit/hook_elf_write.h

HOOK_TESTS := state request rootfs find precreate place inject elf limit
UNIT_TESTS += $(HOOK_TESTS:%=$(O)/tests/unit/hook_%_test)
$(HOOK_TESTS:%=$(O)/tests/unit/hook_%_test.o): private PKGS := json-c cmocka
$(HOOK_TESTS:%=$(O)/tests/unit/hook_%_test.o): private EXTRA_CFLAGS := -D_GNU_SOURCE
$(HOOK_TESTS:%=$(O)/tests/unit/hook_%_test): private PKGS := json-c cmocka
$(HOOK_TESTS:%=$(O)/tests/unit/hook_%_test): $(O)/tests/unit/hook_%_test: \
    $(O)/tests/unit/hook_%_test.o $(HOOK_LIB)
	$(link)

.PHONY: install-hook
install: install-hook
# Nobody but root reads the hook (0711), so nobody looks into it from its first instruction on.
install-hook: $(O)/hook/apir-hook $(HOOK_FILES)
	install -D -m 0711 $(O)/hook/apir-hook $(DESTDIR)$(prefix)/libexec/apir/apir-hook
	install -D -m 0644 $(O)/hook/90-apir.json \
	    $(DESTDIR)$(prefix)/share/apir/hooks.d-runtime/90-apir.json
	install -D -m 0644 $(O)/hook/90-apir-precreate.json \
	    $(DESTDIR)$(prefix)/share/apir/hooks.d/90-apir-precreate.json
