# `make test` sets up, builds and runs everything; `make check` only runs. SAN=1: the unit tests under ASan and UBSan.
UNIT_TEST    := $(BUILD)/test/unit
UNIT_OBJECTS := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(wildcard tests/unit/*.cpp))

BENCH        := $(call objects,$(call sources,tests/bench/planner))

$(UNIT_TEST): $(UNIT_OBJECTS) $(BENCH) $(CLI) $(SIM) $(DAEMON) $(LAUNCHER) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(SIM_LIBS) -lslurm -lsqlite3 -lspdlog -lfmt -lhwloc -lnlopt_cxx

# What the planner's parts reach on recorded and made-up problems. Built with everything, installed nowhere.
$(BUILD)/bin/espalier-bench: $(call objects,tests/bench/planner/main.cpp) $(BENCH) $(SIM) $(CORE)
	@mkdir -p $(@D)
	$(CXX) $(LDFLAGS) -o $@ $^ $(CORE_LIBS) $(SIM_LIBS) -lnlopt_cxx

.PHONY: test check demo bench
test:
	$(call build_after_deps,$(if $(filter 1,$(SAN)),,all) $(UNIT_TEST))
	@+$(MAKE) --no-print-directory check
check: $(UNIT_TEST)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) tests/run.sh $(if $(filter 1,$(SAN)),unit,$(SUITES))
demo:
	$(call build_after_deps,all)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) examples/demo/run.sh
bench:
	$(call build_after_deps,all)
	@BUILD=$(BUILD) TORCH_HOME=$(TORCH_HOME) tests/bench/run.sh
