# SPDX-License-Identifier: Apache-2.0
#
# apir-hook against runc, on this machine, with hostile images and states.
# APIR_RACE_SECONDS: how long links are swapped under it, per stage.

HOOK_RACE := $(O)/tests/system/hook/race
HOOK_STALL := $(O)/tests/system/hook/stall
HOOK_TRAP := $(O)/tests/system/hook/trap.so

$(HOOK_RACE): $(call objs,tests/system/hook/race.c)
	$(link)
$(HOOK_STALL): $(call objs,tests/system/hook/stall.c)
	$(link)

# Leaves a mark where it is loaded. Not instrumented: it goes into other people's programs.
$(HOOK_TRAP): tests/system/hook/trap.c
	@mkdir -p $(@D)
	$(call SAY,LINK)$(CC) $(BASE_CFLAGS) -shared -o $@ $<

.PHONY: check-hook
check-hook: all $(HOOK_RACE) $(HOOK_STALL) $(HOOK_TRAP)
	@tests/system/hook/run.sh $(O)
