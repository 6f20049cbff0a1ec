# `make install DESTDIR= PREFIX=` and `make uninstall`: one list of SOURCE:PLACE:MODE serves both. The mode `link`: a symbolic link at
# PLACE to SOURCE.
MANDIR := share/man
DOCDIR := share/doc/espalier
# For PYTHONPATH; `make wheel` is for pip.
PYTHONDIR := lib/espalier/python
# What Python looks for beside a package: its name, version and entry points (torchrun --rdzv-backend=espalier is one).
PYTHON_INFO := espalier-$(VERSION).dist-info
SITE_FILES := $(filter %.toml %.conf %.service %.sh %.json,$(wildcard etc/*))
TRAINERS := espalier-train $(if $(filter 1,$(CUDA)),espalier-train-cuda)
INSTALLED = \
  $(foreach b,espalier espalier-launch espalier-ranks espalier-toy $(TRAINERS),$(BUILD)/bin/$b:bin/$b:755) \
  $(foreach b,espalierd espalier-report,$(BUILD)/bin/$b:sbin/$b:755) \
  $(foreach p,$(notdir $(PLUGINS)),$(BUILD)/lib/$p:lib/slurm/$p:755) \
  $(foreach m,$(wildcard man/*.[1-9]),$m:$(MANDIR)/man$(subst .,,$(suffix $m))/$(notdir $m):644) \
  $(foreach f,$(SITE_FILES),$(BUILD)/$f:$(if $(filter %.service,$f),lib/systemd/system,$(DOCDIR))/$(notdir $f):644) \
  $(foreach e,$(shell find examples -name '*.toml' -o -name '*.csv' -o -name tokens.py -o -name '*.sbatch' -o -path '*/pytorch/*' -o -path '*/c/*'),$e:$(DOCDIR)/$e:644) \
  $(foreach p,$(notdir $(wildcard torchrt/python/espalier/*.py)) py.typed,torchrt/python/espalier/$p:$(PYTHONDIR)/espalier/$p:644) \
  $(foreach m,METADATA entry_points.txt,$(BUILD)/$(PYTHON_INFO)/$m:$(PYTHONDIR)/$(PYTHON_INFO)/$m:644) \
  $(WORKER_LIBRARY).0:lib/libespalier-worker.so.0:755 libespalier-worker.so.0:lib/libespalier-worker.so:link \
  torchrt/c/espalier/worker.h:include/espalier/worker.h:644 \
  torchrt/python/README.md:$(DOCDIR)/python.md:644 \
  etc/newcomer.md:$(DOCDIR)/newcomer.md:644 \
  README.md:$(DOCDIR)/README.md:644 LICENSE:$(DOCDIR)/LICENSE:644

# Site files name the places of this installation.
# Made anew each time: PREFIX may be another one. (A phony target would find no pattern rule.)
.PHONY: FORCE
$(addprefix $(BUILD)/,$(SITE_FILES)): $(BUILD)/etc/%: etc/% FORCE
	@mkdir -p $(@D)
	sed 's|@PREFIX@|$(PREFIX)|g' $< > $@

$(BUILD)/$(PYTHON_INFO)/METADATA: Makefile
	@mkdir -p $(@D)
	@printf 'Metadata-Version: 2.1\nName: espalier\nVersion: %s\n' $(VERSION) > $@
$(BUILD)/$(PYTHON_INFO)/entry_points.txt: torchrt/python/pyproject.toml
	@mkdir -p $(@D)
	@sed -n '/^\[project.entry-points/,/^$$/{s/^\[project.entry-points."\(.*\)"\]/[\1]/;s/"\(.*\)"/\1/;p}' $< > $@

.PHONY: install place uninstall wheel
# The Python package, for pip. Needs a Python with pip, setuptools and wheel: Debian's has them with python3-pip.
WHEEL_PYTHON ?= /usr/bin/python3
wheel:
	@mkdir -p $(BUILD)/wheel/source
	@cp -r torchrt/python/. LICENSE $(BUILD)/wheel/source/
	$(WHEEL_PYTHON) -m pip wheel -q --no-deps --no-build-isolation --no-index -w $(BUILD)/wheel $(BUILD)/wheel/source
	@rm -rf $(BUILD)/wheel/source
	@ls $(BUILD)/wheel/*.whl
# `install` without building first; packages.mk uses it, too.
place: $(addprefix $(BUILD)/,$(SITE_FILES)) $(addprefix $(BUILD)/$(PYTHON_INFO)/,METADATA entry_points.txt)
	@set -e; for entry in $(INSTALLED); do IFS=:; set -- $$entry; at="$(DESTDIR)$(PREFIX)/$$2"; \
	  if [ "$$3" = link ]; then ln -sfn "$$1" "$$at"; else install -D -m "$$3" "$$1" "$$at"; fi; done
install: all
	@+$(MAKE) --no-print-directory place
	@echo "espalier: installed under $(DESTDIR)$(PREFIX); $(PREFIX)/$(DOCDIR)/README.md tells what a site does next"
uninstall:
	@set -e; for entry in $(INSTALLED); do IFS=:; set -- $$entry; rm -f "$(DESTDIR)$(PREFIX)/$$2"; done
	@rm -rf "$(DESTDIR)$(PREFIX)/$(DOCDIR)" "$(DESTDIR)$(PREFIX)/$(dir $(PYTHONDIR))"
	@rmdir --ignore-fail-on-non-empty "$(DESTDIR)$(PREFIX)/lib/slurm" 2>/dev/null || true
