# SPDX-License-Identifier: Apache-2.0
#
# gguf-write: model files with random weights, for every test that needs one; gguf-extra: what goes
# with such a model, or has its vocabulary; whisper-write: the same for whisper.cpp.

GGUF_WRITE := $(O)/tests/models/gguf-write
GGUF_WRITE_OBJS := $(call objs,tests/models/gguf_write.c tests/models/shape.c \
                     tests/models/vocab.c tests/models/weights.c)

ALL += $(GGUF_WRITE)

$(GGUF_WRITE): PKGS := ggml
# ggml.pc names libggml alone, which loads backends; the file format is in libggml-base.
$(GGUF_WRITE): EXTRA_LIBS := -lggml-base -lm -lpthread
$(GGUF_WRITE): $(GGUF_WRITE_OBJS)
	$(link)

GGUF_EXTRA := $(O)/tests/models/gguf-extra
ALL += $(GGUF_EXTRA)
$(GGUF_EXTRA): PKGS := ggml
$(GGUF_EXTRA): EXTRA_LIBS := -lggml-base -lm
$(GGUF_EXTRA): $(call objs,tests/models/gguf_extra.c)
	$(link)

WHISPER_WRITE := $(O)/tests/models/whisper-write
ALL += $(WHISPER_WRITE)
$(WHISPER_WRITE): PKGS := ggml
$(WHISPER_WRITE): EXTRA_LIBS := -lggml-base -lm
$(WHISPER_WRITE): $(call objs,tests/models/whisper_write.c)
	$(link)
