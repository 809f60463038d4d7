# SPDX-License-Identifier: Apache-2.0
# What every part uses, and what knows nothing of GPUs: each program links the objects it needs.

COMMON_OBJS := $(call objs,common/error.c common/file.c common/log.c common/root.c common/text.c \
               $(filter-out %/regular.c,$(call of_system,common)))
# With json-c.
COMMON_JSON_OBJS := $(call objs,common/json.c $(filter %/regular.c,$(call of_system,common)))
# What texts of CDI and OCI mean, and what is known of an image: for the hook, and `apir doctor`.
COMMON_OCI_OBJS := $(call objs,$(wildcard common/oci/*.c))
COMMON_IMAGE_OBJS := $(call objs,$(wildcard common/image/*.c))

$(COMMON_JSON_OBJS) $(COMMON_OCI_OBJS) $(COMMON_IMAGE_OBJS): private PKGS := json-c
