# Espalier. `make` builds, `make demo` shows, `make test` tests; README.md says more. No configure step: set variables.
VERSION     := 0.1.0
PREFIX      ?= /usr/local
BUILD       ?= build
CXX         ?= g++
CC          ?= gcc
PYTHON      ?= python3
CACHE_HOME  ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/espalier
TORCH_HOME  ?= $(CACHE_HOME)/torch-2.11.0-cp311/torch
# A Python with the torch of TORCH_HOME and transformers, for tests and benchmarks that compare with them.
TEST_PYTHON ?= $(if $(filter file,$(origin TORCH_HOME)),$(TORCH_HOME)/../bin/python,$(PYTHON))
CUDA_HOME   ?= $(firstword $(wildcard /usr/local/cuda /opt/cuda))
CUDA        ?= $(if $(wildcard $(CUDA_HOME)/bin/nvcc),1,0)
SAN         ?= 0
CCACHE      ?= $(shell command -v ccache 2>/dev/null)
export CCACHE_NOHASHDIR := 1  # a second checkout finds what the first compiled

ifeq ($(SAN),1)
  override BUILD := $(BUILD)/san
  SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined
endif

WARN     := -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast
HARDEN   := -fPIC -fstack-protector-strong -fstack-clash-protection -fcf-protection $(if $(SANITIZE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
OPT      ?= -O2 -g1
CPPFLAGS += -I. -DESPALIER_VERSION='"$(VERSION)"' -DSPDLOG_FMT_EXTERNAL -DSPDLOG_COMPILED_LIB -DSPDLOG_SHARED_LIB
CXXFLAGS += -std=c++20 $(OPT) $(WARN) $(HARDEN) $(SANITIZE) -pthread
CFLAGS   += -std=c11 $(OPT) -Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion $(HARDEN) $(SANITIZE)
LDFLAGS  += -Wl,-z,relro,-z,now -Wl,--as-needed $(SANITIZE) -pthread $(if $(shell command -v ld.lld 2>/dev/null),-fuse-ld=lld)

sources = $(filter-out %/main.cpp,$(wildcard $(addsuffix /*.cpp,$(1))))
objects = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(1))
# An archive: who plans nothing links no solver.
CORE     := $(BUILD)/obj/core.a
# What differs between Slurm's releases; in the same archive.
SLURM_API := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard planner/slurm/*.c))
# Of an extension: of espalierd and of the job_submit plugin.
GRANT    := $(BUILD)/obj/planner/wire/grant.o
WIRE     := $(call objects,$(call sources,planner/wire)) $(GRANT)
DAEMON   := $(call objects,$(call sources,planner/daemon planner/daemon/metrics))
CLI      := $(call objects,$(call sources,planner/cli planner/cli/doctor))
SIM      := $(call objects,$(call sources,planner/sim planner/sim/policies planner/sim/traces))
LAUNCHER := $(call objects,$(call sources,$(addprefix launcher/,job base recovery world node slurm process profile conform)))
# The only objects that know PMIx. What the rank server shares with the launcher it links as well.
RANKS    := $(call objects,$(call sources,launcher/world/server))
RANKS_SHARED := $(call objects,$(addprefix launcher/,process/awake_timer.cpp process/child.cpp process/entry.cpp process/reaping.cpp node/directory.cpp node/gpu_bus_ids.cpp node/launcher_address.cpp node/own_processes.cpp node/own_address.cpp world/container.cpp))
PMIX_CFLAGS ?= $(patsubst -I%,-isystem %,$(shell pkg-config --cflags pmix 2>/dev/null))
PMIX_LIBS   ?= $(or $(shell pkg-config --libs-only-L --libs-only-l pmix 2>/dev/null),-lpmix)

WIRE_LIBS := -levent -lmunge -lcrypto
CORE_LIBS := -lhwloc
# Of the planner's metrics.
DAEMON_LIBS := -lsqlite3 -lprometheus-cpp-pull -lprometheus-cpp-core
SIM_LIBS  := -lcsv -lz -lglpk
BINS := $(addprefix $(BUILD)/bin/,espalier espalierd espalier-launch espalier-ranks espalier-report espalier-bench espalier-bench-world espalier-bench-daemon)
PLUGINS := $(addprefix $(BUILD)/lib/,espalier.so job_submit_espalier.so)

include torchrt/torchrt.mk
include etc/deps/deps.mk
include tests/tests.mk
include tests/gpu/standin/standin.mk
include tests/gpu/nvml/nvml.mk
include tests/fuzz/fuzz.mk

# `make` prints one short line a file, with a count; V=1: whole commands, as does -n.
ifeq ($(V)$(COUNTING)$(findstring n,$(firstword -$(MAKEFLAGS))),)
  # Counted only for goals that are files or `all`: -n runs the recipes of `test` that call make.
  ifeq ($(filter-out all planner-and-plugins next-version $(BUILD)/%,$(MAKECMDGOALS)),)
    to_do := $(shell $(MAKE) -n COUNTING=1 --no-print-directory $(MAKECMDGOALS) 2>/dev/null | grep -c -e ' -MMD -MP -c ')
  endif
  done := 0
  say   = $(eval done := $(shell expr $(done) + 1))@echo "[$(done)/$(to_do)] $<" && $(empty)
  link  = @echo "link $@" && $(empty)
endif

.PHONY: all
all: $(BINS) $(PLUGINS) $(TRAIN_BINS) $(WORKER_LIBRARY) $(BUILD)/bin/espalier-toy
.DEFAULT_GOAL := all
# All but the training runtime, which needs a libtorch.
.PHONY: planner-and-plugins
planner-and-plugins: $(BINS) $(PLUGINS) $(BUILD)/bin/espalier-toy

$(BUILD)/bin/espalierd: $(call objects,planner/daemon/main.cpp) $(DAEMON) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) -lslurm $(DAEMON_LIBS) -lspdlog -lfmt
$(BUILD)/bin/espalier: $(call objects,planner/cli/main.cpp) $(CLI) $(SIM) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) $(SIM_LIBS) -lslurm -lfmt -lnlopt_cxx
$(BUILD)/bin/espalier-launch: $(call objects,launcher/main.cpp) $(LAUNCHER) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) -lslurm -lspdlog -lfmt
# Exported: the accept() of peer_check.cpp, for PMIx to use.
$(RANKS): CPPFLAGS += $(PMIX_CFLAGS)
$(BUILD)/bin/espalier-ranks: $(call objects,launcher/world/server/main.cpp) $(RANKS) $(RANKS_SHARED) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -Wl,--export-dynamic-symbol=accept -o $@ $^ $(WIRE_LIBS) $(PMIX_LIBS) -lfmt
$(BUILD)/bin/espalier-report: $(call objects,spank/report/main.cpp) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) -lhwloc -lfmt

$(CORE): $(call objects,$(call sources,planner/core $(addprefix planner/core/,grid model pipeline pipeline/generators probe topology solver schedule schedule/flextrain schedule/arena))) $(SLURM_API)
	@rm -f $@
	$(link)ar rcs $@ $^

$(BUILD)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(say)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say)$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

include spank/spank.mk
include etc/install.mk
include etc/packages/packages.mk
include tests/upgrade/upgrade.mk

.PHONY: clean format check-format tidy
clean:
	rm -rf $(BUILD)
FORMATTED = $(shell git ls-files '*.cpp' '*.hpp' '*.h' '*.c' '*.cu')
format:
	clang-format -i $(FORMATTED)
check-format:
	@clang-format --dry-run -Werror $(FORMATTED)

# clang-tidy over everything, some 12 s a file; FILES: a pattern of the paths to look at.
tidy:
	@etc/deps/packages.sh clang-tidy
	@mkdir -p $(BUILD)
	@$(MAKE) -nB --no-print-directory CCACHE= UNIT_BATCH=1 all $(UNIT_TEST) $(SIM_TEST) | $(PYTHON) etc/compile_commands.py > $(BUILD)/compile_commands.json
	run-clang-tidy -quiet -p $(BUILD) -j $(shell nproc) '$(or $(FILES),.*)'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
