# SPDX-License-Identifier: Apache-2.0
#
# What test programs share, and the product's own objects for them, without any main: of an archive a
# program takes what it refers to and no more. What units have besides, with a main, is UNIT_OBJ.

TEST_PKGS := cmocka json-c libcap libseccomp libdrm
TEST_LIB := $(O)/tests/lib/apir.a
UNIT_OBJ := $(call objs,tests/lib/unit.c)
TEST_LIB_OBJS := $(filter-out $(UNIT_OBJ),$(call objs,$(wildcard tests/lib/*.c))) \
                 $(COMMON_OBJS) $(COMMON_JSON_OBJS) \
                 $(COMMON_OCI_OBJS) $(COMMON_IMAGE_OBJS) $(PROTOCOL_OBJS) $(LINK_OBJS) \
                 $(call objs,$(wildcard frontend/plugin/*.c frontend/ggml/*.c frontend/graph/*.c)) \
                 $(CONFIG_OBJS) $(SERVER_OBJS) $(WORKER_OBJS) \
                 $(filter-out %/main.o,$(HOOK_OBJS) $(CDI_OBJS))
$(call objs,$(wildcard tests/lib/*.c)): private PKGS := cmocka
# Files of one name from several folders: added one after the other, never replaced.
$(TEST_LIB): $(TEST_LIB_OBJS)
	@mkdir -p $(@D)
	@rm -f $@
	$(call SAY,AR)$(AR) qcs $@ $^
