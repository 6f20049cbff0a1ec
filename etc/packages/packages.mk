# `make deb` and `make rpm`: the packages espalier (every node), espalierd (the controller), espalier-slurm-plugins, which depends
# on the very version of Slurm that it was built against, and the C interface for workers: the library for who runs such programs,
# its header for who compiles them. They go to $(BUILD)/packages. espalier-train is in none of them: it needs the libtorch that it
# was linked with, and is installed by `make install`.
PACKAGES   := $(BUILD)/packages
# Who packages: as Debian's tools are told.
MAINTAINER ?= $(or $(DEBFULLNAME),Espalier) <$(or $(DEBEMAIL),espalier@localhost.localdomain)>
RELEASE    ?= 1
# Where this machine's Slurm looks for plugins, and where SchedMD's RPMs do.
DEB_PLUGINS ?= $(or $(patsubst %/auth_munge.so,%,$(firstword $(wildcard /usr/lib/*/slurm-wlm/auth_munge.so /usr/lib/*/slurm/auth_munge.so))),/usr/lib/slurm)
RPM_PLUGINS ?= /usr/lib64/slurm
RPM_LIBRARIES ?= $(patsubst %/,%,$(dir $(RPM_PLUGINS)))
SLURM_NEXT   = $(shell echo '$(SLURM_VERSION)' | awk -F. '{ printf "%d.%02d.%d", $$1, $$2, $$3 + 1 }')
STORE_SCHEMA = $(shell sed -n 's/.*kSchema = \([0-9]*\);.*/\1/p' planner/daemon/store.hpp)
in_package   = sed -e 's|@MAINTAINER@|$(MAINTAINER)|' -e "s|@DATE@|$$(LC_ALL=C date '+%a %b %d %Y')|" -e 's|@VERSION@|$(VERSION)|g' -e 's|@RELEASE@|$(RELEASE)|g' -e 's|@SLURM@|$(SLURM_VERSION)|g' \
  -e 's|@SLURM_NEXT@|$(SLURM_NEXT)|g' -e 's|@SCHEMA@|$(STORE_SCHEMA)|g' -e 's|@PLUGIN_DIR@|$(1)|g' -e 's|@LIBRARY_DIR@|$(2)|g'

# $(call stage,FOLDER,PLUGIN_DIR,LIBRARY_DIR): everything that is packaged, as it will lie on a site's machine. The plugins are
# compiled for PREFIX=/usr apart: objects do not tell for which prefix they were made.
define stage
@rm -rf $(1)
@+$(MAKE) --no-print-directory place BUILD=$(BUILD) PREFIX=/usr DESTDIR=$(abspath $(1)) TRAINERS= > /dev/null
@+$(MAKE) --no-print-directory BUILD=$(PACKAGES)/usr PREFIX=/usr $(patsubst $(BUILD)/%,$(PACKAGES)/usr/%,$(PLUGINS))
@rm -rf $(1)/usr/lib/slurm $(1)/usr/share/doc/espalier/LICENSE
@install -D -m 644 -t $(1)$(2) $(patsubst $(BUILD)/%,$(PACKAGES)/usr/%,$(PLUGINS))
@[ $(3) = /usr/lib ] || { mkdir -p $(1)$(3) && mv $(1)/usr/lib/libespalier-worker.so* $(1)$(3); }
@install -D -m 644 etc/espalier.toml $(1)/etc/espalier/espalier.toml
@sed -i -e '/^PluginDir=/d' -e '1s/ PluginDir keeps.*//' $(1)/usr/share/doc/espalier/slurm.conf
@sed -i 's|/usr/lib/slurm/espalier.so|espalier.so|' $(1)/usr/share/doc/espalier/plugstack.conf
endef

.PHONY: deb rpm
deb: planner-and-plugins $(WORKER_LIBRARY)
	@etc/deps/packages.sh debhelper
	@rm -rf $(PACKAGES)/deb && mkdir -p $(PACKAGES)/deb/debian
	$(call stage,$(PACKAGES)/deb/stage,$(DEB_PLUGINS),/usr/lib)
	@set -e; cd etc/packages/debian; for file in *; do \
	  $(call in_package,$(patsubst /%,%,$(DEB_PLUGINS))) "$$file" > $(abspath $(PACKAGES))/deb/debian/"$$file"; done
	@chmod 755 $(PACKAGES)/deb/debian/rules
	@mv $(PACKAGES)/deb/stage/usr/lib/systemd/system/espalierd.service $(PACKAGES)/deb/debian/espalierd.service
	@printf 'espalier (%s-%s) unstable; urgency=medium\n\n  * Built from the sources of this version.\n\n -- %s  %s\n' '$(VERSION)' '$(RELEASE)' \
	  '$(MAINTAINER)' "$$(date -R)" > $(PACKAGES)/deb/debian/changelog
	cd $(PACKAGES)/deb && dpkg-buildpackage -b -us -uc -d > ../deb.log 2>&1 || { tail -n 30 ../deb.log >&2; exit 1; }
	@ls $(PACKAGES)/*_$(VERSION)-$(RELEASE)_*.deb

rpm: planner-and-plugins $(WORKER_LIBRARY)
	@etc/deps/packages.sh rpm
	$(call stage,$(PACKAGES)/rpm/stage,$(RPM_PLUGINS),$(RPM_LIBRARIES))
	@$(call in_package,$(RPM_PLUGINS),$(RPM_LIBRARIES)) etc/packages/espalier.spec > $(PACKAGES)/rpm/espalier.spec
	rpmbuild -bb --quiet --define '_binary_payload w6.gzdio' --define '__os_install_post %{nil}' --define '_build_id_links none' --define '_topdir $(abspath $(PACKAGES))/rpm' --define 'stage $(abspath $(PACKAGES))/rpm/stage' \
	  $(PACKAGES)/rpm/espalier.spec > $(PACKAGES)/rpm.log 2>&1 || { tail -n 30 $(PACKAGES)/rpm.log >&2; exit 1; }
	@mv $(PACKAGES)/rpm/RPMS/*/*.rpm $(PACKAGES)/ && ls $(PACKAGES)/*.rpm

# In a root that has Slurm and nothing else; needs root, and some hundred MB the first time.
.PHONY: test-packages
test-packages:
	@$(MAKE) --no-print-directory deps
	@+$(MAKE) --no-print-directory deb rpm
	@BUILD=$(BUILD) CACHE_HOME=$(CACHE_HOME) TORCH_HOME=$(TORCH_HOME) tests/packages/run
