# A stand-in for NVIDIA's management library, and the program that asks it. For tests of machines without a GPU; installed nowhere.
NVML_STANDIN := $(BUILD)/test/nvml/libnvidia-ml.so.1
GPU_FAULTS   := $(BUILD)/test/nvml/gpu_faults
$(NVML_STANDIN): $(call objects,tests/gpu/nvml/library.cpp)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^
$(GPU_FAULTS): $(call objects,tests/gpu/nvml/main.cpp $(addprefix launcher/world/server/,nvml.cpp gpu_errors.cpp))
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^
$(UNIT_TEST): | $(NVML_STANDIN) $(GPU_FAULTS)
all planner-and-plugins: $(NVML_STANDIN)
