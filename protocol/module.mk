# SPDX-License-Identifier: Apache-2.0
# What both sides of the ring share.

PROTOCOL_OBJS := $(call objs,$(wildcard protocol/*.c) $(call of_system,protocol))
