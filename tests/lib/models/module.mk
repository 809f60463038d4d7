# SPDX-License-Identifier: Apache-2.0
#
# gguf-write: model files with random weights, for every test that needs one; gguf-extra: what goes
# with such a model, or has its vocabulary; whisper-write: the same for whisper.cpp.

GGUF_WRITE := $(O)/tests/lib/models/gguf-write
GGUF_WRITE_OBJS := $(call objs,tests/lib/models/gguf_write.c tests/lib/models/shape.c \
                     tests/lib/models/vocab.c tests/lib/models/weights.c)

ALL += $(GGUF_WRITE)

$(GGUF_WRITE): PKGS := ggml
# ggml.pc names libggml alone, which loads backends; the file format is in libggml-base.
$(GGUF_WRITE): EXTRA_LIBS := -lggml-base -lm -lpthread
$(GGUF_WRITE): $(GGUF_WRITE_OBJS)
	$(link)

GGUF_EXTRA := $(O)/tests/lib/models/gguf-extra
ALL += $(GGUF_EXTRA)
$(GGUF_EXTRA): PKGS := ggml
$(GGUF_EXTRA): EXTRA_LIBS := -lggml-base -lm
$(GGUF_EXTRA): $(call objs,tests/lib/models/gguf_extra.c)
	$(link)

WHISPER_WRITE := $(O)/tests/lib/models/whisper-write
ALL += $(WHISPER_WRITE)
$(WHISPER_WRITE): PKGS := ggml
$(WHISPER_WRITE): EXTRA_LIBS := -lggml-base -lm
$(WHISPER_WRITE): $(call objs,tests/lib/models/whisper_write.c)
	$(link)
