# The training runtime: espalier-train (CPU) and, with CUDA=1, espalier-train-cuda. Only model/ sees torch.
TRAIN_ALL    := $(call sources,torchrt torchrt/schedule torchrt/model torchrt/handoff torchrt/handoff/transfer torchrt/recovery torchrt/comm torchrt/device \
                  torchrt/safetensors torchrt/checkpoint torchrt/model/families torchrt/model/layers torchrt/profiler torchrt/probe)
MODEL_PURE   := $(addprefix torchrt/model/,config_json.cpp family.cpp hugging_face.cpp initialise.cpp model_config.cpp \
                  state_layout.cpp units.cpp)
# What a hand-off's plan is made of.
HANDOFF_PLAN := $(call objects,torchrt/layout.cpp $(MODEL_PURE) $(call sources,torchrt/model/families torchrt/handoff/transfer))
TRAIN_PURE   := $(call objects,$(addprefix torchrt/,comm/ordered.cpp checksum.cpp weights_checksum.cpp config.cpp config_model.cpp \
                  toml_reader.cpp schedule_file.cpp layout.cpp data.cpp \
                  data_order.cpp data_agreement.cpp data_fingerprint.cpp input_file.cpp write_file.cpp place_parameters.cpp learning_rate.cpp line_file.cpp metrics.cpp model_flops.cpp pace.cpp unit_times.cpp \
                  worker_environment.cpp spare.cpp fork_server.cpp open_files.cpp device/cpu.cpp device/driver_version.cpp device/gpu_islands.cpp handoff/exchange.cpp handoff/gpu_reach.cpp handoff/handoff_plan.cpp handoff/source_marks.cpp handoff/state_address.cpp handoff/state_socket.cpp comm/waits.cpp \
                  $(addprefix recovery/,marks.cpp vault_client.cpp choose_source.cpp exchange_inventories.cpp partners.cpp host_memory.cpp recovery_plan.cpp)) \
                  $(MODEL_PURE) $(addprefix torchrt/profiler/,host_timeline.cpp link_rounds.cpp op_recorder.cpp replica_times.cpp step_samples.cpp trace.cpp \
                  flavour/cpu.cpp) \
                  $(call sources,$(addprefix torchrt/,schedule safetensors checkpoint model/families handoff/transfer)))
TRAIN_CPU    := $(call objects,$(addprefix torchrt/,device/flavour/cpu.cpp comm/flavour/cpu.cpp profiler/flavour/cpu.cpp model/flavour/cpu.cpp))
TRAIN_CUDA   := $(call objects,$(addprefix torchrt/,device/cuda.cpp device/cuda_driver.cpp device/cuda_ipc.cpp comm/nccl_calls.cpp \
                  comm/nccl_fabric.cpp comm/nccl_group.cpp comm/nccl_transport.cpp) \
                  $(addsuffix /flavour/cuda.cpp,$(addprefix torchrt/,device comm profiler model)))
# Compiled by nvcc for every generation of GPUs that it knows, and as PTX for later ones.
CUDA_KERNELS := $(BUILD)/obj/torchrt/model/flavour/fixed_point.cu.o
TRAIN_COMMON := $(filter-out $(TRAIN_CUDA),$(call objects,$(TRAIN_ALL) torchrt/main.cpp))
TRAIN_BINS   := $(BUILD)/bin/espalier-train $(if $(filter 1,$(CUDA)),$(BUILD)/bin/espalier-train-cuda)

TORCH_LIB  := $(TORCH_HOME)/lib
TORCH_INC  := -isystem $(TORCH_HOME)/include -isystem $(TORCH_HOME)/include/torch/csrc/api/include
MPICC      ?= mpicc
MPI_INC    := $(patsubst -I%,-isystem %,$(shell $(MPICC) --showme:compile 2>/dev/null))
MPI_LIBS   := $(shell $(MPICC) --showme:link 2>/dev/null)
# The very libcudart that libtorch uses: two in one process break.
CUDART     := $(firstword $(wildcard $(TORCH_HOME)/../nvidia/cu*/lib/libcudart.so.*) $(wildcard $(CUDA_HOME)/lib64/libcudart.so.*))
# NCCL: the one beside torch, else the toolkit's, else the one of `make deps`.
NCCL_HOME  ?= $(patsubst %/include/nccl.h,%,$(firstword $(wildcard $(addsuffix /include/nccl.h,$(TORCH_HOME)/../nvidia/nccl $(CUDA_HOME) $(CACHE_HOME)/nccl-2.28.9/nvidia/nccl))))
NCCL_INC   := $(if $(NCCL_HOME),-isystem $(NCCL_HOME)/include)
NCCL_LIB   := $(firstword $(wildcard $(addsuffix /libnccl.so.2,$(addprefix $(NCCL_HOME)/,lib lib64))))
# CUDA's headers: the toolkit's, else those of `make deps-standin`.
CUDA_HEADERS ?= $(patsubst %/cuda_runtime_api.h,%,$(firstword $(wildcard $(addsuffix /cuda_runtime_api.h,$(addsuffix /include,$(CUDA_HOME)) $(CACHE_HOME)/cuda-headers-13.0/nvidia/cu13/include))))
CUDA_INC   := $(if $(CUDA_HEADERS),-isystem $(CUDA_HEADERS))

$(call objects,$(filter-out $(MODEL_PURE),$(call sources,torchrt/model torchrt/model/layers torchrt/model/flavour))): CPPFLAGS += $(TORCH_INC)
# at::parallel_for runs in parallel only in what is compiled for OpenMP.
$(call objects,$(addprefix torchrt/model/,fixed_point.cpp squared_sum.cpp)): CXXFLAGS += -fopenmp
# llrint becomes one instruction, and loops of it vectors.
$(BUILD)/obj/torchrt/model/fixed_point.o: CXXFLAGS += -O3 -fno-math-errno -fno-trapping-math
TRAIN_MPI := $(call objects,$(addprefix torchrt/comm/,world.cpp host_exchange.cpp mpi_fabric.cpp mpi_group.cpp mpi_requests.cpp mpi_ring.cpp mpi_transport.cpp) \
               tests/torchrt/collectives.cpp)
$(TRAIN_MPI): CPPFLAGS += $(MPI_INC) -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1
$(TRAIN_CUDA): CPPFLAGS += $(CUDA_INC) $(NCCL_INC)

# libtorch_cpu itself needs libcudart and libcupti, which it finds through its own RPATH when it starts; at link time they,
# and what libtorch_cuda needs beyond them, may be absent.
# Exported for MPI to use: the sched_yield of comm/waits.cpp, and listen and accept of comm/mpi_accept.cpp.
TRAIN_LINK = $(LDFLAGS) -fopenmp -Wl,--export-dynamic-symbol=sched_yield -Wl,--export-dynamic-symbol=listen -Wl,--export-dynamic-symbol=accept -Wl,--unresolved-symbols=ignore-in-shared-libs -L$(TORCH_LIB) -Wl,-rpath,$(TORCH_LIB)

$(BUILD)/bin/espalier-train: $(TRAIN_COMMON) $(TRAIN_CPU) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(TRAIN_LINK) -o $@ $^ -ltorch_cpu -lc10 $(MPI_LIBS) $(WIRE_LIBS)
$(BUILD)/bin/espalier-train-cuda: $(TRAIN_COMMON) $(TRAIN_CUDA) $(CUDA_KERNELS) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(TRAIN_LINK) -o $@ $^ -Wl,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--as-needed -ltorch_cpu -lc10 \
	  $(CUDART) -Wl,-rpath,$(realpath $(dir $(CUDART))) $(NCCL_LIB) -Wl,-rpath,$(realpath $(dir $(NCCL_LIB))) $(MPI_LIBS) $(WIRE_LIBS)

$(CUDA_KERNELS): $(BUILD)/obj/%.cu.o: %.cu torchrt/model/flavour/fixed_point_kernels.hpp
	@mkdir -p $(@D)
	$(say)$(CUDA_HOME)/bin/nvcc -ccbin $(CXX) -allow-unsupported-compiler -I. -std=c++17 -O3 -lineinfo -arch=all-major -Xcompiler -fPIC,-fstack-protector-strong -c -o $@ $<

# The kernels against the loops of processors that they replace. Built with the CUDA flavour, run by tests/gpu/run.
FIXED_POINT := $(BUILD)/test/fixed_point
$(call objects,tests/gpu/fixed_point.cpp): CPPFLAGS += $(CUDA_INC)
$(FIXED_POINT): $(call objects,tests/gpu/fixed_point.cpp) $(CUDA_KERNELS)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(CUDART) -Wl,-rpath,$(realpath $(dir $(CUDART)))

# Adoption and copies of a GPU's memory between processes. Built with the CUDA flavour, run by tests/gpu/run.
STATE_MEMORY := $(BUILD)/test/state_memory
$(call objects,tests/gpu/state_memory.cpp): CPPFLAGS += $(CUDA_INC)
$(STATE_MEMORY): $(call objects,tests/gpu/state_memory.cpp $(addprefix torchrt/,device/cuda.cpp device/cuda_driver.cpp device/cuda_ipc.cpp \
    handoff/state_socket.cpp) planner/wire/packet_socket.cpp) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(CUDART) -Wl,-rpath,$(realpath $(dir $(CUDART)))

# What the unit tests link of the runtime: all that is free of torch and MPI.
$(BUILD)/test/unit: $(TRAIN_PURE) $(call objects,torchrt/c/step_times.cpp torchrt/toy/star_sum.cpp)

# The MPI backend alone, under mpirun.
$(BUILD)/test/collectives: $(call objects,tests/torchrt/collectives.cpp $(addprefix torchrt/comm/,world.cpp waits.cpp ordered.cpp \
    mpi_group.cpp mpi_requests.cpp mpi_ring.cpp mpi_transport.cpp)) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -Wl,--export-dynamic-symbol=sched_yield -o $@ $^ $(MPI_LIBS)

# Dropout alone, the memory that arithmetic keeps in a step and between steps, and a validation that is stopped.
$(call objects,$(addprefix tests/torchrt/,dropout.cpp held.cpp released.cpp)): CPPFLAGS += $(TORCH_INC)
$(BUILD)/test/dropout $(BUILD)/test/held $(BUILD)/test/released $(BUILD)/test/stopped: $(BUILD)/test/%: $(filter-out $(call objects,torchrt/main.cpp),$(TRAIN_COMMON) $(TRAIN_CPU)) $(call objects,tests/torchrt/%.cpp) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(TRAIN_LINK) -o $@ $^ -ltorch_cpu -lc10 $(MPI_LIBS) $(WIRE_LIBS)

# Plays the launcher in tests/torchrt.
$(BUILD)/test/stage_director: $(call objects,tests/torchrt/stage_director.cpp $(wildcard tests/torchrt/director*.cpp) launcher/node/vault.cpp launcher/node/deposits.cpp \
    launcher/process/resource_limits.cpp launcher/world/placement.cpp torchrt/handoff/state_address.cpp torchrt/recovery/vault_client.cpp) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS)
ifneq ($(SAN),1)
check: $(BUILD)/test/stage_director $(BUILD)/test/collectives $(BUILD)/test/dropout $(BUILD)/test/held $(BUILD)/test/released $(BUILD)/test/stopped $(BUILD)/test/c_worker $(if $(filter 1,$(CUDA)),$(STATE_MEMORY))
endif

# The C interface of the worker protocol, for programs in any language. It exports what its header declares and no more.
WORKER_LIBRARY := $(BUILD)/lib/libespalier-worker.so
$(call objects,torchrt/c/worker.cpp): CPPFLAGS += -Itorchrt/c
WORKER_OBJECTS := $(call objects,$(addprefix torchrt/,c/worker.cpp c/step_times.cpp session.cpp control.cpp worker_environment.cpp handoff/state_address.cpp handoff/state_socket.cpp))
$(WORKER_LIBRARY): $(WORKER_OBJECTS) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	@printf '{ global: espalier_*; local: *; };\n' > $@.exports
	$(link)$(CXX) $(LDFLAGS) -shared -Wl,-soname,libespalier-worker.so.0 -Wl,--version-script=$@.exports -o $@.0 $^ $(WIRE_LIBS)
	@ln -sf $(notdir $@).0 $@
# The training of `espalier doctor --run`.
$(call objects,torchrt/toy/main.cpp): CPPFLAGS += -Itorchrt/c
$(BUILD)/bin/espalier-toy: $(call objects,torchrt/toy/main.cpp torchrt/toy/star_sum.cpp) $(WORKER_OBJECTS) $(WIRE) $(CORE)
	@mkdir -p $(@D)
	$(link)$(CXX) $(LDFLAGS) -o $@ $^ $(WIRE_LIBS)
# The example in C, for the conformance suite.
$(BUILD)/test/c_worker: examples/c/worker.c $(WORKER_LIBRARY)
	@mkdir -p $(@D)
	$(MPICC) -std=c11 -O2 -Wall -Wextra -Werror -Itorchrt/c -o $@ $< -L$(BUILD)/lib -Wl,-rpath,$(realpath $(BUILD))/lib -lespalier-worker -lm
