# SPDX-License-Identifier: Apache-2.0
include $(wildcard tests/*/module.mk)
