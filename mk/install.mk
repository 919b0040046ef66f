# SPDX-License-Identifier: Apache-2.0
# Manual pages, and make install DESTDIR= PREFIX=
SHARE = $(DESTDIR)$(PREFIX)/share
PYTHONSITE ?= $(PREFIX)/lib/python3/dist-packages
PYTHONDIR = $(DESTDIR)$(PYTHONSITE)
MAN_PAGES := $(patsubst man/%.scd,$(BUILD)/man/%,$(wildcard man/*.scd))

$(BUILD)/man/%: man/%.scd man/tables.awk docs/journal.md docs/failures.md docs/policy.md docs/protocol.md
	@mkdir -p $(@D)
	$(if $(Q),@echo "  MAN   $@")
	$(Q)awk -f man/tables.awk $< >$@.scd && scdoc <$@.scd >$@ && rm $@.scd
man: $(MAN_PAGES) ## manual pages
all: $(MAN_PAGES)

install: all ## install under DESTDIR/PREFIX
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(LIBDIR)/pkgconfig \
	  $(DESTDIR)$(PREFIX)/include/dlrover $(DESTDIR)$(PLUGINDIR) $(SHARE)/dlrover/examples $(SHARE)/dlrover/etc
	$(Q)install -m755 $(BUILD)/dlrover $(DESTDIR)$(PREFIX)/bin/
	$(Q)install -m755 $(filter $(BUILD)/dlrover-%,$(PROGRAMS)) $(DESTDIR)$(LIBEXECDIR)/
	$(Q)install -m644 $(BUILD)/libdlrover.so $(DESTDIR)$(LIBDIR)/libdlrover.so.0
	$(Q)ln -sf libdlrover.so.0 $(DESTDIR)$(LIBDIR)/libdlrover.so
	$(Q)install -m644 $(BUILD)/libdlrover-mpi.so $(DESTDIR)$(LIBEXECDIR)/
	$(Q)install -m644 ckpt/ckpt.h ckpt/resilient.h feed/client/feed.h watch/client/watch.h $(DESTDIR)$(PREFIX)/include/dlrover/
	$(Q)sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' dlrover.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/dlrover.pc
	$(Q)install -m755 $(BUILD)/spank_dlrover.so $(DESTDIR)$(PLUGINDIR)/
	$(Q)install -m755 $(EXAMPLES) $(wildcard examples/*.py) $(SHARE)/dlrover/examples/
	$(Q)for file in $(wildcard examples/frameworks/*.py); do install -D -m755 $$file $(SHARE)/dlrover/$$file || exit 1; done
	$(Q)$(if $(wildcard examples/*.sbatch),install -m644 $(wildcard examples/*.sbatch examples/README.md) $(SHARE)/dlrover/examples/)
	$(Q)for page in $(MAN_PAGES); do \
	  install -D -m644 $$page $(SHARE)/man/man$${page##*.}/$${page##*/} || exit 1; done
	$(Q)for file in $(wildcard python/dlrover/*.py python/dlrover/frameworks/*.py) python/dlrover/py.typed; do install -D -m644 $$file $(PYTHONDIR)/$${file#python/} || exit 1; done
	$(Q)for file in $(shell find etc -type f); do \
	  install -D -m$$(test -x $$file && echo 755 || echo 644) $$file $(SHARE)/dlrover/$$file || exit 1; done
	$(Q)$(if $(wildcard completions/dlrover.bash),install -D -m644 completions/dlrover.bash \
	  $(SHARE)/bash-completion/completions/dlrover)
	@echo "installed under $(DESTDIR)$(PREFIX)"
.PHONY: install man
