# The plugins. SPANK's must match Slurm's major.minor, job_submit's the micro version too.
SPANK_COMMON := $(addprefix $(BUILD)/obj/spank/,elastic_option.o gpu_request.o)
SPANK_PLUGIN := $(addprefix $(BUILD)/obj/spank/,dispatch.o site.o option.o deadline.o multi_prog.o local.o container.o pyxis.o allocator.o remote.o \
                  job_script.o slurmd.o detach.o event_datagram.o) $(BUILD)/obj/planner/slurm/job_record.o
SPANK_SUBMIT := $(addprefix $(BUILD)/obj/spank/,job_submit.o notice.o elastic_partition.o used_grants.o) $(GRANT)
SLURM_BIN    ?= $(patsubst %/,%,$(dir $(or $(shell command -v scancel 2>/dev/null),/usr/bin/scancel)))
SLURM_VERSION = $(shell $(CC) -E -dM -include slurm/slurm_version.h -x c - </dev/null | \
                  awk '$$2 == "SLURM_VERSION_NUMBER" { print $$3 }' | { read -r v; \
                  printf '%d.%02d.%d' $$((v >> 16)) $$((v >> 8 & 255)) $$((v & 255)); })

$(SPANK_COMMON) $(SPANK_PLUGIN) $(SPANK_SUBMIT): CFLAGS += -fvisibility=hidden -D_GNU_SOURCE \
  -DESPALIER_PREFIX='"$(PREFIX)"' -DESPALIER_SLURM_BIN='"$(SLURM_BIN)"'

$(SLURM_API): CFLAGS += -DESPALIER_SLURM_BIN='"$(SLURM_BIN)"'

$(BUILD)/lib/espalier.so: $(SPANK_PLUGIN) $(SPANK_COMMON) spank/espalier.lds
	@mkdir -p $(@D)
	$(link)$(CC) $(LDFLAGS) -shared -Wl,--version-script=spank/espalier.lds -o $@ $(filter %.o,$^) -lmunge
	@echo "espalier.so loads into Slurm $(basename $(SLURM_VERSION)).x only"
$(BUILD)/lib/job_submit_espalier.so: $(SPANK_SUBMIT) $(SPANK_COMMON) spank/job_submit.lds
	@mkdir -p $(@D)
	$(link)$(CC) $(LDFLAGS) -shared -Wl,--version-script=spank/job_submit.lds -o $@ $(filter %.o,$^) -lcrypto
	@echo "job_submit_espalier.so loads into Slurm $(SLURM_VERSION) only"

$(BUILD)/bin/espalier-report: $(call objects,spank/report/topology.cpp) $(BUILD)/obj/spank/event_datagram.o
$(UNIT_TEST): $(SPANK_COMMON) $(addprefix $(BUILD)/obj/spank/,deadline.o multi_prog.o used_grants.o container.o)
