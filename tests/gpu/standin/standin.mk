# Stand-ins for libcudart, libnccl and torch's GPU, and the CUDA flavour built on them. For tests; installed nowhere. They need
# CUDA's and NCCL's headers (`make deps-standin`), no card, no driver, no nvcc and no NCCL.
STANDIN_DIR   := $(BUILD)/test/standin
STANDIN_CUDA  := $(call objects,$(addprefix tests/gpu/standin/,settings.cpp streams.cpp context.cpp memory.cpp runtime.cpp))
STANDIN_NCCL  := $(call objects,$(addprefix tests/gpu/standin/,nccl.cpp nccl_collectives.cpp nccl_communicator.cpp nccl_group.cpp nccl_mesh.cpp nccl_reduce.cpp))
STANDIN_TORCH := $(call objects,tests/gpu/standin/torch_flavour.cpp)
STANDIN_TRAIN := $(BUILD)/test/espalier-train-standin
# The product's loops that stand for kernels.
STANDIN_WRAPS := 15add_fixed_pointERKN2at6TensorES4_bdS4_ 16from_fixed_pointERKN2at6TensorES4_ 12squared_sumsERKSt6vectorIN2at6TensorESaIS3_EE

$(STANDIN_CUDA) $(STANDIN_NCCL) $(STANDIN_TORCH): CPPFLAGS += $(CUDA_INC) $(NCCL_INC)
$(STANDIN_TORCH): CPPFLAGS += $(TORCH_INC)
$(STANDIN_DIR)/libcudart.so.13: $(STANDIN_CUDA) tests/gpu/standin/libcudart.map
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -Wl,--version-script=tests/gpu/standin/libcudart.map -o $@ $(STANDIN_CUDA)
$(STANDIN_DIR)/libnccl.so.2: $(STANDIN_NCCL) $(STANDIN_DIR)/libcudart.so.13
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ -Wl,-rpath,'$$ORIGIN'
# The objects of espalier-train-cuda, but for where tensors are.
$(STANDIN_TRAIN): $(TRAIN_COMMON) $(filter-out %/model/flavour/cuda.o,$(TRAIN_CUDA)) $(STANDIN_TORCH) $(WIRE) $(CORE) \
    $(STANDIN_DIR)/libcudart.so.13 $(STANDIN_DIR)/libnccl.so.2
	@mkdir -p $(@D)
	$(link)$(CXX) $(TRAIN_LINK) -Wl,-rpath,$(realpath $(BUILD))/test/standin \
	  $(foreach name,$(STANDIN_WRAPS),-Wl,--wrap=_ZN8espalier7torchrt$(name)) \
	  -o $@ $^ -ltorch_cpu -lc10 $(MPI_LIBS) $(WIRE_LIBS)

# What the stand-ins themselves do, and what the product makes of their errors.
STANDIN_SEMANTICS := $(BUILD)/test/standin/semantics
STANDIN_CASES := $(call objects,$(wildcard tests/gpu/standin/semantics_*.cpp))
$(STANDIN_CASES): CPPFLAGS += $(CUDA_INC) $(NCCL_INC)
$(STANDIN_SEMANTICS): $(STANDIN_CASES) $(call objects,torchrt/device/cuda_driver.cpp) $(STANDIN_DIR)/libcudart.so.13 $(STANDIN_DIR)/libnccl.so.2
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ -Wl,-rpath,'$$ORIGIN'

# Without the headers nothing is built, and the tests say that they are skipped.
STANDIN_ALL := $(if $(and $(CUDA_HEADERS),$(NCCL_HOME),$(CUDART)),$(STANDIN_SEMANTICS) $(STANDIN_TRAIN) $(STATE_MEMORY) $(if $(filter 1,$(CUDA)),$(FIXED_POINT)) \
    $(BUILD)/test/stage_director $(BUILD)/bin/espalier-train)
ifneq ($(SAN),1)
check: $(STANDIN_ALL)
endif
# All of it; `make test` runs a short form.
.PHONY: test-gpu-standin
test-gpu-standin: deps-standin
	$(call build_after_deps,$(STANDIN_ALL))
	@BUILD=$(BUILD) tests/gpu/standin/run
