# make install: programs, wrapper, manual pages, completion, systemd units below DESTDIR and PREFIX.
bindir  := $(PREFIX)/bin
sbindir := $(PREFIX)/sbin
mandir  := $(PREFIX)/share/man
compdir := $(PREFIX)/share/bash-completion/completions
unitdir := $(PREFIX)/lib/systemd/system

.PHONY: install clean
install: all ## install below PREFIX (/usr/local), DESTDIR before it
	install -d $(addprefix $(DESTDIR),$(bindir) $(sbindir) $(mandir)/man1 $(mandir)/man8 $(compdir) $(unitdir))
	install -m 755 $(BUILD)/spillwayd $(BUILD)/spillway-agent $(DESTDIR)$(sbindir)
	install -m 755 cli/spillway $(if $(BENCH_C),$(BUILD)/spillway-bench) $(DESTDIR)$(bindir)
	install -m 644 docs/man/*.1 $(DESTDIR)$(mandir)/man1
	install -m 644 docs/man/*.8 $(DESTDIR)$(mandir)/man8
	install -m 644 cli/completion.bash $(DESTDIR)$(compdir)/spillway
	for unit in systemd/*.service; do \
	    sed 's|/usr/local/sbin|$(sbindir)|' $$unit >$(DESTDIR)$(unitdir)/$${unit##*/} && chmod 644 $(DESTDIR)$(unitdir)/$${unit##*/} || exit 1; done

clean: ## remove everything that was built (var/ stays)
	rm -rf build build-asan build-tsan
