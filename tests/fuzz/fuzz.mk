# The parsers under libFuzzer, ASan and UBSan, compiled by clang. The unit tests run the same targets on their seeds.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(notdir $(basename $(wildcard tests/fuzz/targets/*.cpp)))
# Sanitizers stop at what is undefined. Overflows of unsigned numbers are defined, and hashes use them.
FUZZ_FLAGS   := -gline-tables-only -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FUZZ_COVER   := -fprofile-instr-generate -fcoverage-mapping

# The parsers, whose covered lines are counted.
FUZZ_PARSERS := $(addprefix planner/wire/,frame.cpp framing.cpp messages.cpp message_fields.cpp rank_messages.cpp event.cpp capabilities.cpp config.cpp toml_keys.cpp hardware_keys.cpp share_keys.cpp \
    objective_keys.cpp) \
  $(addprefix planner/core/,text_limits.cpp json.cpp profile_json.cpp hostlist.cpp pipeline/csv.cpp pipeline/check.cpp topology/hwloc_document.cpp \
    topology/node_xml.cpp topology/topology_text.cpp gres.cpp feature_expression.cpp stage_profile_json.cpp \
    probe/request.cpp) planner/daemon/gpu_request.cpp \
  $(addprefix planner/cli/,hugging_face_config.cpp plan_job_file.cpp plan_cluster_file.cpp) \
  $(wildcard planner/sim/traces/*.cpp) planner/sim/trace.cpp launcher/node/vault.cpp launcher/node/deposits.cpp \
  $(addprefix torchrt/,recovery/vault_client.cpp handoff/state_socket.cpp checkpoint/manifest.cpp safetensors/file.cpp safetensors/weights.cpp \
    toml_reader.cpp config.cpp config_model.cpp model/config_json.cpp model/hugging_face.cpp) \
  $(addprefix spank/,elastic_option.c gpu_request.c multi_prog.c) planner/wire/grant.c
# What the parsers need beside themselves.
FUZZ_OTHERS  := $(addprefix planner/wire/,frame_tags.cpp handshake.cpp munge.cpp packet_socket.cpp packet_listeners.cpp peer_owner.cpp host_uid.cpp) \
  $(addprefix planner/core/,error.cpp names.cpp open_input.cpp plan.cpp data_parallel.cpp profile_check.cpp model/stage_profile.cpp model/model_sizes.cpp model/published_models.cpp \
    pipeline/action_text.cpp pipeline/generate.cpp pipeline/placement.cpp pipeline/simulate.cpp \
    topology/switch_paths.cpp topology/gpu_specs.cpp topology/topology.cpp \
    pipeline_form.cpp model/form_figures.cpp model/own_lists.cpp model/scheduled_time.cpp) planner/cli/live_cluster.cpp planner/cli/start_slurm.cpp planner/cli/preset_clusters.cpp \
  planner/sim/redeployment.cpp planner/slurm/site.c planner/core/schedule/objective_names.cpp launcher/process/resource_limits.cpp \
  $(filter-out %/main.cpp,$(wildcard planner/core/pipeline/generators/*.cpp)) planner/slurm/hosts.c \
  $(addprefix torchrt/,checksum.cpp input_file.cpp unit_times.cpp model_flops.cpp safetensors/element_type.cpp) \
  $(filter-out torchrt/model/config_json.cpp torchrt/model/hugging_face.cpp,$(MODEL_PURE)) $(wildcard torchrt/model/families/*.cpp)
fuzz_objects  = $(patsubst %,$(BUILD)/fuzz/obj/%.o,$(1))

$(BUILD)/fuzz/obj/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(say)$(CCACHE) clang++ $(CPPFLAGS) -std=c++20 $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(FUZZ_COVER) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(say)$(CCACHE) clang $(CPPFLAGS) -D_GNU_SOURCE $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link $(FUZZ_COVER) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/parsers.a: $(call fuzz_objects,$(FUZZ_PARSERS) $(FUZZ_OTHERS) tests/fuzz/require.cpp tests/fuzz/memory_file.cpp)
	@rm -f $@
	$(link)ar rcs $@ $^
$(BUILD)/fuzz/bin/%: $(BUILD)/fuzz/obj/tests/fuzz/targets/%.cpp.o tests/fuzz/libfuzzer.cpp $(BUILD)/fuzz/parsers.a
	@mkdir -p $(@D)
	$(link)clang++ $(CPPFLAGS) -std=c++20 $(FUZZ_FLAGS) -fsanitize=fuzzer $(FUZZ_COVER) -DFUZZ_TARGET=$* -o $@ $(filter-out %.hpp,$^) \
	  $(WIRE_LIBS) $(CORE_LIBS) -lcsv -lz -lslurm -lfmt -lxxhash
.SECONDARY: $(call fuzz_objects,$(patsubst %,tests/fuzz/targets/%.cpp,$(FUZZ_TARGETS)))

# Links the same sources, as the ordinary build has compiled them. When a parser begins to need another file, `make test` says so,
# and not the next fuzzing.
FUZZ_LINKED := $(BUILD)/test/fuzz_targets.so
$(FUZZ_LINKED): $(patsubst %.c,$(BUILD)/obj/%.o,$(patsubst %.cpp,$(BUILD)/obj/%.o,$(FUZZ_PARSERS) $(FUZZ_OTHERS) \
    tests/fuzz/require.cpp tests/fuzz/memory_file.cpp $(wildcard tests/fuzz/targets/*.cpp)))
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -shared -Wl,--no-undefined -o $@ $^ $(WIRE_LIBS) $(CORE_LIBS) -lcsv -lz -lslurm -lfmt -lxxhash
ifneq ($(SAN),1)
$(UNIT_TEST): | $(FUZZ_LINKED)
endif

# TARGETS: some of them only. What they found and reached is in $(BUILD)/fuzz.json; corpora grow in $(BUILD)/fuzz/corpora.
TARGETS ?= $(FUZZ_TARGETS)
.PHONY: test-fuzz
test-fuzz:
	@$(MAKE) --no-print-directory deps
	@etc/deps/packages.sh clang libclang-rt-dev llvm
	@+$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) $(addprefix $(BUILD)/fuzz/bin/,$(TARGETS))
	@BUILD=$(BUILD) SECONDS_EACH=$(FUZZ_SECONDS) PARSERS="$(FUZZ_PARSERS)" tests/fuzz/run.py $(TARGETS)

-include $(shell find $(BUILD)/fuzz/obj -name '*.d' 2>/dev/null)
