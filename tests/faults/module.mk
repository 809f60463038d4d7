# SPDX-License-Identifier: Apache-2.0
#
# Every part killed or stopped at every step, and hosts without memory, device or time.

FAULTS_GATE_GGML := $(O)/tests/faults/gate-ggml.so
FAULTS_GATE_CLIENT := $(O)/tests/faults/gate-client.so
FAULTS_WALK := $(O)/tests/faults/faults-walk
FAULTS_STEPS := $(O)/tests/faults/steps
FAULTS_ALL := $(FAULTS_GATE_GGML) $(FAULTS_GATE_CLIENT) $(FAULTS_WALK) $(FAULTS_STEPS)

ALL += $(FAULTS_ALL)
HEADERS += $(wildcard tests/faults/*.h)

# Its functions stand in front of those of the same name: they must be seen.
$(O)/tests/faults/gate_ggml.o $(O)/tests/faults/gate_client.o: EXTRA_CFLAGS := -fvisibility=default
$(FAULTS_GATE_GGML): PKGS := ggml
$(FAULTS_GATE_GGML): $(call objs,tests/faults/gate_ggml.c tests/faults/gate.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -Wl,--no-as-needed -lggml -lggml-base

$(FAULTS_GATE_CLIENT): $(call objs,tests/faults/gate_client.c tests/faults/gate.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS)

$(FAULTS_WALK): PKGS := ggml
$(FAULTS_WALK): EXTRA_LIBS := -lggml-base -lm
$(FAULTS_WALK): $(call objs,tests/faults/walk.c tests/faults/gate.c \
                  tests/system/apir_exercise_parts.c)
	$(link)

$(FAULTS_STEPS): $(call objs,tests/faults/steps.c tests/faults/host.c)
	$(link)

# All of it takes about ten minutes; the part, one case in eleven, less than one.
.PHONY: check-faults check-faults-part
check-faults: $(FAULTS_ALL) $(RENDER_SERVER) $(WORKER) $(PLUGIN)
	@$(FAULTS_STEPS) $(O)
check-faults-part: $(FAULTS_ALL) $(RENDER_SERVER) $(WORKER) $(PLUGIN)
	@$(FAULTS_STEPS) $(O) short
