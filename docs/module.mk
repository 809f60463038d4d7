# SPDX-License-Identifier: Apache-2.0
#
# The manual pages.

MAN_PAGES := $(wildcard docs/man/*.[1-8])

.PHONY: install-man
install: install-man
install-man: $(MAN_PAGES)
	set -e; for page in $^; do \
	    install -D -m 0644 "$$page" "$(DESTDIR)$(prefix)/share/man/man$${page##*.}/$${page##*/}"; \
	done
