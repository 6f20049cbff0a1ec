# `make deps`: everything a fresh Debian 12 lacks. Fast when nothing is missing. TORCH_HOME= given by hand: no download of torch.
.PHONY: deps
deps:
	@etc/deps/packages.sh
ifeq ($(origin TORCH_HOME),file)
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(patsubst %/,%,$(dir $(TORCH_HOME))) etc/deps/wheels.txt etc/deps/python.sh
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(CACHE_HOME)/accelerate-1.15.0 etc/deps/accelerate.txt || \
	  echo "espalier: deps: without accelerate the tests of Trainer and Accelerate will be skipped"
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(CACHE_HOME)/lightning-2.6.6 etc/deps/lightning.txt || \
	  echo "espalier: deps: without lightning the tests of Lightning will be skipped"
	@etc/deps/bytecode.sh $(patsubst %/,%,$(dir $(TORCH_HOME)))/bin/python $(patsubst %/,%,$(dir $(TORCH_HOME))) $(CACHE_HOME)/accelerate-1.15.0 \
	  $(CACHE_HOME)/lightning-2.6.6
endif
ifeq ($(CUDA)$(NCCL_HOME),1)
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(CACHE_HOME)/nccl-2.28.9 etc/deps/nccl.txt
endif

# What the tests on stand-ins for CUDA and NCCL are compiled with, where the machine has no headers of these. Without a network the
# tests are skipped, and say so.
.PHONY: deps-standin
deps-standin: deps
ifeq ($(CUDA_HEADERS),)
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(CACHE_HOME)/cuda-headers-13.0 etc/deps/cuda_headers.txt || \
	  echo "espalier: deps: without CUDA's headers the tests on its stand-in will be skipped"
endif
ifeq ($(NCCL_HOME),)
	@PYTHON=$(PYTHON) etc/deps/wheels.sh $(CACHE_HOME)/nccl-2.28.9 etc/deps/nccl.txt || \
	  echo "espalier: deps: without NCCL's header the tests on its stand-in will be skipped"
endif

# $(call build_after_deps,TARGETS): `make test` and `make demo` begin on a bare machine; what the Makefile found out when it was
# read may be outdated after deps, so the build is a make of its own.
define build_after_deps
@$(MAKE) --no-print-directory deps
@+$(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) $(1)
endef
