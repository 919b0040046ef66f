# SPDX-License-Identifier: Apache-2.0
# make install DESTDIR= PREFIX=
install: all ## install under DESTDIR/PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	  $(DESTDIR)$(PREFIX)/include/dlrover $(DESTDIR)$(PLUGINDIR) $(DESTDIR)$(PREFIX)/share/dlrover/examples
	install -m755 $(BUILD)/dlrover $(DESTDIR)$(PREFIX)/bin/
	install -m755 $(addprefix $(BUILD)/dlrover-,keeper supervisor agent data rendezvous slurm stderr) $(DESTDIR)$(LIBEXECDIR)/
	install -m644 $(BUILD)/libdlrover.so $(DESTDIR)$(PREFIX)/lib/libdlrover.so.0
	ln -sf libdlrover.so.0 $(DESTDIR)$(PREFIX)/lib/libdlrover.so
	install -m644 ckpt/ckpt.h $(DESTDIR)$(PREFIX)/include/dlrover/
	install -m755 $(BUILD)/spank_dlrover.so $(DESTDIR)$(PLUGINDIR)/
	install -m755 $(EXAMPLES) $(DESTDIR)$(PREFIX)/share/dlrover/examples/
.PHONY: install
