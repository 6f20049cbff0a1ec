# A "next version" of daemon, tool, launcher and plugins, for tests of an upgrade (tests/cluster/upgrade.bats): the same sources
# with a higher version, whose messages and events hold fields that this version does not know. Only what differs is compiled.
NEXT         := $(BUILD)/next
NEXT_VERSION := $(VERSION).next
NEXT_FRAME   := $(BUILD)/obj/planner/wire/frame.o
NEXT_OWN     := $(patsubst %.cpp,$(BUILD)/obj/%.o,$(shell grep -rl --include='*.cpp' ESPALIER_VERSION planner launcher spank))
NEXT_EVENTS  := $(addprefix $(BUILD)/obj/spank/,notice.o event_datagram.o)
# Objects as they are in the next version.
next = $(foreach o,$(1),$(if $(filter $(o),$(NEXT_FRAME)),$(NEXT)/obj/tests/upgrade/frame.o,$(if $(filter \
  $(o),$(NEXT_EVENTS)),$(NEXT)/obj/tests/upgrade/$(notdir $(o)),$(if $(filter $(o),$(NEXT_OWN)),$(patsubst \
  $(BUILD)/%,$(NEXT)/%,$(o)),$(o)))))

$(NEXT)/obj/%.o: VERSION := $(NEXT_VERSION)
$(NEXT)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(say)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c -o $@ $<
$(NEXT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(say)$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(NEXT)/obj/tests/upgrade/notice.o $(NEXT)/obj/tests/upgrade/event_datagram.o: CFLAGS += -fvisibility=hidden -D_GNU_SOURCE
$(call next,$(RANKS) $(call objects,launcher/world/server/main.cpp)): CPPFLAGS += $(PMIX_CFLAGS)

NEXT_BINS := $(addprefix $(NEXT)/bin/,espalierd espalier espalier-launch espalier-ranks espalier-report)
NEXT_LIBS := $(addprefix $(NEXT)/lib/,espalier.so job_submit_espalier.so)
$(NEXT)/bin/espalierd: $(call next,$(call objects,planner/daemon/main.cpp) $(DAEMON) $(WIRE)) $(CORE)
$(NEXT)/bin/espalier: $(call next,$(call objects,planner/cli/main.cpp) $(CLI) $(SIM) $(WIRE)) $(CORE)
$(NEXT)/bin/espalier-launch: $(call next,$(call objects,launcher/main.cpp) $(LAUNCHER) $(WIRE)) $(CORE)
$(NEXT)/bin/espalier-ranks: $(call next,$(call objects,launcher/world/server/main.cpp) $(RANKS) $(RANKS_SHARED) $(WIRE)) $(CORE)
$(NEXT)/bin/espalier-report: $(call next,$(call objects,spank/report/main.cpp spank/report/topology.cpp) $(NEXT_EVENTS) $(WIRE)) $(CORE)
$(NEXT)/bin/espalier-ranks: LDFLAGS += -Wl,--export-dynamic-symbol=accept
# --as-needed: each takes the libraries that it needs.
$(NEXT_BINS):
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) $(DAEMON_LIBS) $(SIM_LIBS) $(PMIX_LIBS) -lslurm -lspdlog -lfmt -lnlopt_cxx
$(NEXT)/lib/espalier.so: $(call next,$(SPANK_PLUGIN) $(SPANK_COMMON))
$(NEXT)/lib/job_submit_espalier.so: $(call next,$(SPANK_SUBMIT) $(SPANK_COMMON))
$(NEXT)/lib/espalier.so: SYMBOLS := spank/espalier.lds
$(NEXT)/lib/job_submit_espalier.so: SYMBOLS := spank/job_submit.lds
$(NEXT_LIBS):
	@mkdir -p $(@D)
	$(link)$(CC) $(LDFLAGS) -shared -Wl,--version-script=$(SYMBOLS) -o $@ $^ -lmunge -lcrypto

.PHONY: next-version
next-version: $(NEXT_BINS) $(NEXT_LIBS)
-include $(shell find $(NEXT)/obj -name '*.d' 2>/dev/null)
