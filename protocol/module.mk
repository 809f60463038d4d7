# SPDX-License-Identifier: Apache-2.0
# What both sides share; each program links the objects it needs.
HEADERS += $(wildcard protocol/*.h)
PROTOCOL_RING_OBJS  := $(call objs,protocol/ring.c protocol/messages.c protocol/graph.c protocol/peer_copy.c)
PROTOCOL_PROG_OBJS  := $(call objs,protocol/error.c protocol/log.c)
PROTOCOL_FD_OBJS    := $(call objs,protocol/fdsock.c)
PROTOCOL_PROBE_OBJS := $(call objs,protocol/ggml_probe.c)
