# SPDX-License-Identifier: Apache-2.0
#
# Clients without end, a third of which misbehave: make soak MINUTES=n (1 by default);
# BUSY=n beside so many processes that only burn time. CLASSES=n: the same number of programs on so
# many servers that listen, with different limits; SECONDS=n: a shorter one.

SOAK := $(O)/tests/hostile/soak/soak
SOAK_CLIENT := $(O)/tests/hostile/soak/soak-client
SOAK_CLASSES := $(O)/tests/hostile/soak/soak-classes
SOAK_MODEL := build/models/soak-3m.gguf

ALL += $(SOAK) $(SOAK_CLIENT) $(SOAK_CLASSES)

$(SOAK): $(call objs,$(addprefix tests/hostile/,soak/soak.c soak/board.c faults/census.c)) $(TEST_LIB)
	$(link)

$(SOAK_CLASSES): $(call objs,$(addprefix tests/hostile/soak/,soak_classes.c class.c board.c)) $(TEST_LIB)
	$(link)

$(SOAK_CLIENT): PKGS := ggml $(TEST_PKGS)
$(SOAK_CLIENT): EXTRA_LIBS := -lggml-base -lm
$(SOAK_CLIENT): $(call objs,tests/hostile/soak/soak_client.c tests/hostile/soak/soak_raw.c \
                  tests/system/apir_exercise_parts.c) $(TEST_LIB)
	$(link)

$(SOAK_MODEL): $(O)/tests/lib/models/gguf-write
	@mkdir -p $(@D)
	@$< --arch llama --preset 3M --output $@

.PHONY: soak
soak: $(SOAK) $(SOAK_CLASSES) $(SOAK_CLIENT) $(SOAK_MODEL) $(RENDER_SERVER) $(WORKER) $(PLUGIN)
	@$(if $(CLASSES),$(SOAK_CLASSES) $(O) \
	    $(or $(SECONDS),$$(awk 'BEGIN { print 60 * $(or $(MINUTES),1) }')) $(CLASSES),\
	    $(SOAK) $(O) $(or $(MINUTES),1) $(BUSY))

# What shows classes and groups, from several suites.
CLASSES_UNITS := $(addprefix $(O)/tests/,unit/backend/server_group_test unit/backend/server_limits_test \
    unit/backend/server_shm_test process/server_unix_test)
.PHONY: check-classes
check-classes: all $(O)/tests/system/musl-load $(CLASSES_UNITS) $(SOAK_CLASSES) $(SOAK_CLIENT)
	@MAKE='$(MAKE)' tests/hostile/soak/classes.sh $(O)
