# `make test` sets up, builds and runs everything; `make check` only runs. SAN=1: the unit tests under ASan and UBSan.
# A cluster test that failed runs once more at the end, alone; what passes then is listed, also in $(BUILD)/flaky.log (run.sh).
UNIT_TEST    := $(BUILD)/test/unit
# Several files of tests/unit are compiled as one (unit_batches.py); UNIT_BATCH=1: each by itself. Less is optimised than in
# the product: it takes the compiler a quarter less.
UNIT_BATCH   ?= 8
UNIT_SOURCES := $(shell $(PYTHON) tests/unit_batches.py $(BUILD)/batches $(UNIT_BATCH))
UNIT_OBJECTS := $(patsubst $(BUILD)/batches/%.cpp,$(BUILD)/obj/batches/%.o,$(filter $(BUILD)/batches/%,$(UNIT_SOURCES))) \
    $(patsubst %.cpp,$(BUILD)/obj/%.o,$(filter-out $(BUILD)/batches/%,$(UNIT_SOURCES)) $(filter-out tests/fuzz/libfuzzer.cpp,$(wildcard tests/fuzz/*.cpp tests/fuzz/targets/*.cpp)))
$(UNIT_OBJECTS): OPT := $(OPT:-O2=-O1)
$(BUILD)/obj/batches/%.o: $(BUILD)/batches/%.cpp
	@mkdir -p $(@D)
	$(say)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<

BENCH        := $(call objects,$(call sources,tests/bench/planner))

# Of a rank server, what needs no PMIx.
SPARE_RANKS  := $(call objects,$(addprefix launcher/world/server/,spare_ranks.cpp node_spares.cpp orphans.cpp fork_request.cpp container_step.cpp found_container.cpp step_process.cpp spare_origin.cpp rank_output.cpp torch_environment.cpp mpi_environment.cpp pmix_places.cpp node_setup.cpp numa_binding.cpp cuda_defaults.cpp variables.cpp gpu_check.cpp gpu_errors.cpp nvml.cpp))

$(UNIT_TEST): $(UNIT_OBJECTS) $(SPARE_RANKS) $(BENCH) $(CLI) $(SIM) $(DAEMON) $(LAUNCHER) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(SIM_LIBS) -lslurm $(DAEMON_LIBS) -lspdlog -lfmt -lhwloc -lnlopt_cxx

# What the planner's parts and the hand-off's plan reach on recorded and made-up problems. Built with everything, installed nowhere.
$(BUILD)/bin/espalier-bench: $(call objects,tests/bench/planner/main.cpp) $(BENCH) $(HANDOFF_PLAN) $(call objects,planner/cli/preset_clusters.cpp) \
    $(SIM) $(DAEMON) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) $(SIM_LIBS) -lslurm $(DAEMON_LIBS) -lspdlog -lfmt -lnlopt_cxx

# Launchers, planner and Slurm in virtual time (tests/sim/main.cpp). The product is an archive here: the linker takes what
# is used and what tests/sim/seams_*.cpp, which stand in for its edges to the outside, do not define themselves.
SIM_TEST    := $(BUILD)/test/sim
SIM_PRODUCT := $(BUILD)/obj/sim_product.a
$(SIM_PRODUCT): $(DAEMON) $(LAUNCHER) $(WIRE)
	@rm -f $@
	$(link)ar rcsT $@ $^
$(SIM_TEST): $(call objects,$(wildcard tests/sim/*.cpp)) $(SIM_PRODUCT) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ -lsqlite3 -lspdlog -lfmt -lhwloc -lcrypto -lmunge -lslurm

# From SEED on; the seed of a history that breaks an invariant is printed.
HISTORIES ?= 100000
SEED      ?= 1
.PHONY: test-sim
test-sim:
	$(call build_after_deps,$(SIM_TEST))
	@$(SIM_TEST) --mutants
	@$(SIM_TEST) --seed $(SEED) --histories $(HISTORIES) --jobs $(shell nproc)
	@$(SIM_TEST) --movable --mutants
	@$(SIM_TEST) --movable --seed $(SEED) --histories $(HISTORIES) --jobs $(shell nproc)
	@$(SIM_TEST) --movable --arena --seed $(SEED) --histories $$(($(HISTORIES) / 10)) --jobs $(shell nproc)

.PHONY: test check demo bench bench-train bench-pytorch
test: $(if $(filter 1,$(SAN)),,deps-standin)
	$(call build_after_deps,$(if $(filter 1,$(SAN)),$(UNIT_TEST),all next-version))
	@+$(MAKE) --no-print-directory check
# Without SUITES, or with all, run.sh has the unit tests built itself, beside the cluster tests.
check: $(if $(filter-out all roots,$(SUITES))$(filter 1,$(SAN)),$(UNIT_TEST)) $(if $(filter sim,$(SUITES)),$(SIM_TEST))
	@BUILD=$(BUILD) LONG=$(LONG) MAKE="$(MAKE)" TORCH_HOME=$(TORCH_HOME) TEST_PYTHON=$(TEST_PYTHON) tests/run.sh $(if $(filter 1,$(SAN)),unit,$(SUITES))
# FAULTS holds its arguments: --seed N --count N --state STATE --kind adopt|checkpoint|overlap|spread --fault TEXT.
.PHONY: test-faults
test-faults:
	$(call build_after_deps,all)
	@exec env BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) tests/faults/run $(FAULTS)
# What others can do to espalierd and to a training, carried out in boxes; what was measured is in $(BUILD)/attacks.json.
.PHONY: test-attacks
test-attacks:
	$(call build_after_deps,all)
	@rm -f $(BUILD)/attacks.json
	@FILES="$(wildcard tests/cluster/attacks*.bats)" BUILD=$(BUILD) MAKE="$(MAKE)" TORCH_HOME=$(TORCH_HOME) \
	  TEST_PYTHON=$(TEST_PYTHON) tests/attacks/report.sh
# In roots of other Debian releases, with their Slurm, Open MPI and compiler: ROOTS="trixie sid", COMPILE_ONLY=1 for no tests.
# The suite `roots` of run.sh is a short form of it.
ROOTS ?= trixie sid
.PHONY: test-roots
test-roots:
	@$(MAKE) --no-print-directory deps
	@BUILD=$(BUILD) CACHE_HOME=$(CACHE_HOME) TORCH_HOME=$(TORCH_HOME) COMPILE_ONLY=$(COMPILE_ONLY) tests/roots/run_tests.sh $(ROOTS)
demo:
	$(call build_after_deps,all)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) examples/demo/run.sh
bench:
	$(call build_after_deps,all)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) TEST_PYTHON=$(TEST_PYTHON) tests/bench/run.sh
	@+$(MAKE) --no-print-directory bench-train

# What the models of plans and schedules say, for the training benchmark to compare with.
$(BUILD)/bin/espalier-bench-train: $(call objects,$(wildcard tests/bench/train/*.cpp)) $(TRAIN_PURE) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS)
# How soon MPI is initialised on rank servers and under mpirun: `espalier-bench world` runs it in a box.
$(BUILD)/bin/espalier-bench-world: $(call objects,tests/bench/world/main.cpp) $(LAUNCHER) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) -lslurm -lspdlog -lfmt
# espalierd under load: launchers that one process plays, and slurmctld's answers about a cluster that is larger than a box.
$(BUILD)/bin/espalier-bench-daemon: $(call objects,$(wildcard tests/bench/daemon/*.cpp) tests/bench/planner/paper_cluster.cpp) \
  $(LAUNCHER) $(SIM) $(WIRE) $(CORE) | $(BUILD)/lib/bench_slurm_answers.so
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) $(SIM_LIBS) -lslurm -lspdlog -lfmt -lnlopt_cxx
$(BUILD)/lib/bench_slurm_answers.so: $(BUILD)/obj/tests/bench/daemon/slurm_answers.o
	@mkdir -p $(@D)
	$(link)$(CC) -shared $(LDFLAGS) -o $@ $^
.PHONY: bench-schedules
bench-schedules:
	$(call build_after_deps,$(addprefix $(BUILD)/bin/,espalier espalier-train espalier-bench-train))
	@BUILD=$(BUILD) $(TEST_PYTHON) tests/bench/train/schedules.py
bench-train:
	$(call build_after_deps,$(TRAIN_BINS) $(BUILD)/bin/espalier-bench-train)
	@BUILD=$(BUILD) $(TEST_PYTHON) tests/bench/train/run.py
# PyTorch scripts that are elastic (tests/bench/pytorch/run), to $(BUILD)/bench/pytorch.json. CHANGES=20 of each kind; PARTS= some of its
# parts. An hour and more.
CHANGES ?= 20
bench-pytorch:
	$(call build_after_deps,all $(BUILD)/test/c_worker)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) PARTS="$(PARTS)" tests/bench/pytorch/run $(CHANGES)
