# SPDX-License-Identifier: Apache-2.0
# The plug-in: no C library, no C++ runtime, no libggml at link time; what it
# needs of libc is in the process that loads it.
FRONTEND_SRCS := $(wildcard frontend/*/*.c protocol/*.c protocol/linux/*.c) \
                 $(addprefix common/,error.c file.c log.c text.c linux/fdsock.c)
FRONTEND_OBJS := $(patsubst %.c,$(O)/plugin/%.o,$(FRONTEND_SRCS))

# The way to the host alone, for programs that are no plug-in.
LINK_OBJS := $(call objs,$(wildcard frontend/link/*.c))
$(LINK_OBJS): private EXTRA_CFLAGS := -isystem /usr/include/libdrm

PLUGIN := $(O)/frontend/libggml-apir.so
ALL += $(PLUGIN)

# Sanitizers need their runtime in the process first, which a plug-in cannot
# bring: it is always built plainly. Its parts run under sanitizers in units.
FRONTEND_CFLAGS := $(BASE_CFLAGS) -O2 -g -fno-stack-protector -U_FORTIFY_SOURCE -ffreestanding \
                   -fno-builtin-printf
# Or gcc calls functions of its own library for atomics on aarch64, and nobody there has them.
ifeq ($(ARCH),aarch64)
FRONTEND_CFLAGS += -mno-outline-atomics
endif

$(O)/plugin/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call SAY,CC)$(CC) $(FRONTEND_CFLAGS) -isystem /usr/include/libdrm -MMD -MP -c -o $@ $<

$(PLUGIN): $(FRONTEND_OBJS)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) -shared -nostdlib -o $@ $^ -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,noexecstack \
	    -Wl,--hash-style=both -Wl,-Bsymbolic -Wl,-soname,libggml-apir.so

.PHONY: install-frontend
install: install-frontend
install-frontend: $(PLUGIN)
	install -D -m 0755 $(PLUGIN) $(DESTDIR)$(prefix)/lib/apir/libggml-apir.so
