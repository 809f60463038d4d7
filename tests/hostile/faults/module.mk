# SPDX-License-Identifier: Apache-2.0
#
# Every part killed or stopped at every step, and hosts without memory, device or time.

FAULTS_GATE_GGML := $(O)/tests/hostile/faults/gate-ggml.so
FAULTS_GATE_CLIENT := $(O)/tests/hostile/faults/gate-client.so
FAULTS_WALK := $(O)/tests/hostile/faults/faults-walk
FAULTS_STEPS := $(O)/tests/hostile/faults/steps
FAULTS_HARDSHIPS := $(O)/tests/hostile/faults/hardships
FAULTS_LAYER := $(O)/tests/hostile/faults/libapir-count.so
FAULTS_LAYER_MANIFEST := $(O)/tests/hostile/faults/apir-count.json
FAULTS_ALL := $(FAULTS_GATE_GGML) $(FAULTS_GATE_CLIENT) $(FAULTS_WALK) $(FAULTS_STEPS) \
              $(FAULTS_HARDSHIPS) $(FAULTS_LAYER) $(FAULTS_LAYER_MANIFEST)

ALL += $(FAULTS_ALL)

# Its functions stand in front of those of the same name: they must be seen.
$(O)/tests/hostile/faults/gate_ggml.o $(O)/tests/hostile/faults/gate_client.o: EXTRA_CFLAGS := -fvisibility=default
$(FAULTS_GATE_GGML): PKGS := ggml
$(FAULTS_GATE_GGML): $(call objs,tests/hostile/faults/gate_ggml.c tests/hostile/faults/gate.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS) -Wl,--no-as-needed -lggml -lggml-base

$(FAULTS_GATE_CLIENT): $(call objs,tests/hostile/faults/gate_client.c tests/hostile/faults/gate.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS)

$(FAULTS_WALK): PKGS := ggml
$(FAULTS_WALK): EXTRA_LIBS := -lggml-base -lm
$(FAULTS_WALK): $(call objs,tests/hostile/faults/walk.c tests/hostile/faults/gate.c \
                  tests/system/apir_exercise_parts.c)
	$(link)

$(FAULTS_STEPS): $(call objs,tests/hostile/faults/steps.c)
$(FAULTS_HARDSHIPS): $(call objs,tests/hostile/faults/hardships.c)
$(FAULTS_STEPS) $(FAULTS_HARDSHIPS): $(call objs,tests/hostile/faults/stage.c tests/hostile/faults/census.c) $(TEST_LIB)
	$(link)

# The bench's counting layer, whose driver can be out of luck.
$(O)/tests/hostile/faults/count_layer.o: EXTRA_CFLAGS := -DCOUNT_HOOK=faults_layer
$(O)/tests/hostile/faults/count_layer.o: tests/bench/count_layer.c
	@mkdir -p $(@D)
	$(call SAY,CC)$(CC) $(ALL_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

$(FAULTS_LAYER): $(O)/tests/hostile/faults/count_layer.o $(call objs,tests/hostile/faults/layer.c tests/hostile/faults/gate.c)
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(ALL_CFLAGS) -shared -o $@ $^ $(ALL_LDFLAGS)

$(FAULTS_LAYER_MANIFEST): tests/bench/count_layer.json
	@mkdir -p $(@D)
	@cp $< $@

# All of it takes about twenty minutes; the part, without most steps and without a VM, one.
.PHONY: check-faults check-faults-part
check-faults: $(FAULTS_ALL) $(O)/tests/system/apir-exercise $(RENDER_SERVER) $(WORKER) $(PLUGIN) $(O)/cdi/apir
	@tests/hostile/faults/run.sh $(O)
check-faults-part: $(FAULTS_ALL) $(O)/tests/system/apir-exercise $(RENDER_SERVER) $(WORKER) $(PLUGIN) $(O)/cdi/apir
	@tests/hostile/faults/run.sh $(O) short
