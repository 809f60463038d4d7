# SPDX-License-Identifier: Apache-2.0
HEADERS += tests/faults/host.h
