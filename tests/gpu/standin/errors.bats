#!/usr/bin/env bats
# What CUDA and NCCL report, and what becomes of it.
# limit: 1800
# each: 300

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
}

says() { # FAULTS TEXT: a run of one rank fails and says so
  STANDIN_FAULTS=$1 run -1 ranks 1 --steps 3
  [[ $output == *"$2"* ]]
}
@test "a GPU that cannot be seen: training on the processor, and the rank says so" {
  STANDIN_GPUS=0 run -0 ranks 1 --steps 2
  [[ $output == *"no GPU is visible; training on the processor"* ]]
}
@test "802 and 803, a node whose driver is not ready: said with what to do" {
  says "cudaGetDeviceCount@1+=802" "looking for GPUs failed: system not yet initialized; where NVSwitch"
  says "cudaGetDeviceCount@1+=803" "looking for GPUs failed: system has unsupported display driver / cuda driver combination; the driver"
}
@test "802 is a lost GPU for the launcher, not a training that failed" {
  munged
  as_nodes
  export STANDIN_FAULTS="g0r1:cudaGetDeviceCount@1+=802"
  script "$(plan 4:2@a/0 4:2@b/0)" 3 "$(plan 4:2@a/0 4:2@b/0)" '{}' > script.json
  run -1 play
  [[ $output == *"espalier: train: rank 1: CUDA: looking for GPUs failed: system not yet initialized"* ]] # the launcher is told nothing
}
# bats test_tags=short
@test "a part of a GPU is refused in words" {
  STANDIN_NAME="NVIDIA A100-SXM4-40GB MIG 1g.5gb" run -1 ranks 1 --steps 2
  [[ $output == *"is a part of one (NVIDIA A100-SXM4-40GB MIG 1g.5gb); Espalier trains on whole GPUs: switch MIG off"* ]]
}
# bats test_tags=short
@test "46, unavailable for a moment: it is tried again" {
  STANDIN_FAULTS="cudaFree@1=46,cudaFree@2=46" ranks 1 --steps 2
}
@test "46, unavailable for a moment when the GPU is chosen, which makes the context: it is tried again" {
  STANDIN_FAULTS="cudaSetDevice@1=46,cudaSetDevice@2=46,cudaFree@1=46" ranks 1 --steps 2
}
@test "46 for good" { says "cudaSetDevice@1+=46" "starting the GPU failed: CUDA-capable device(s) is/are busy or unavailable"; }
@test "46 for good, once the GPU is chosen" { says "cudaFree@1+=46" "starting the GPU failed: CUDA-capable device(s) is/are busy or unavailable"; }
@test "compute mode exclusive: refused in words, not taken for a broken GPU" {
  munged
  as_nodes
  export STANDIN_EXCLUSIVE=1
  script "$(plan 8:2@a/0)" 3 "$(plan 8:2@a/0)" '{"abort": "fails"}' > script.json
  play
  losses_as_alone
  acts '"compute mode 3" in acts[0]["message"] and "nvidia-smi -c 0" in acts[0]["message"]'
}
@test "101 while another's memory is imported is said, not taken for a rank that is gone" {
  munged
  as_nodes
  export STANDIN_FAULTS="g0r0:cuMemImportFromShareableHandle@1+=101,g0r1:cuMemImportFromShareableHandle@1+=101"
  script "$(plan 4:2@a/0 4:2@b/0)" 3 "$(plan 8:2@a/0)" '{"abort": "stays"}' 6 "$(plan 8:2@a/0)" '{"abort": "ready"}' > script.json
  play
  losses_as_alone
  acts '"importing state memory failed: invalid device ordinal" in acts[0]["problems"][0]'
}
@test "memory that is full, at the start" { says "cuMemCreate@1=2" "allocating state memory failed: out of memory"; }
@test "an illegal access" { says "torch@200=700" "illegal memory access"; }
@test "an ECC error that the profile's timeline meets" { says "cudaEventRecord@4=214" "uncorrectable ECC error"; }
@test "an ECC error" { says "cudaDeviceSynchronize@12=214" "uncorrectable ECC error"; }
# bats test_tags=short
@test "a CUDA error that NCCL met is the failure of this rank, not of a peer" {
  munged
  as_nodes
  export STANDIN_FAULTS="g1r1:ncclCommSplit@1=1"
  script "$(plan 4:2@a/0 4:2@a/1)" 3 "$(plan 4:2@a/0 4:2@a/1)" '{"abort": "fails"}' 6 "$(plan 4:2@a/0 4:2@a/1)" '{"abort": "ready"}' \
    > script.json
  play
  losses_as_alone
  acts '"unhandled cuda error" in acts[0]["message"] and not acts[0]["peer"]'
}
@test "a peer that NCCL lost is no failure of this rank" {
  munged
  as_nodes
  export STANDIN_FAULTS="g1r1:ncclCommSplit@1=6"
  script "$(plan 4:2@a/0 4:2@a/1)" 3 "$(plan 4:2@a/0 4:2@a/1)" '{"abort": "fails"}' 6 "$(plan 4:2@a/0 4:2@a/1)" '{"abort": "ready"}' \
    > script.json
  play
  losses_as_alone
  acts '"remote process exited" in acts[0]["message"] and acts[0]["peer"]'
}
# The 21st: a rank has the state and the gradient of ten units before.
@test "46 for the memory that links are looked at with: the rank is lost, as anywhere else, and does not train on without looks" {
  munged
  as_nodes
  export STANDIN_FAULTS="g0r1:cuMemCreate@21=46"
  script "$(plan 8:1@a/0,1@b/0)" 3 "$(plan 8:1@a/0,1@b/0)" '{}' > script.json
  run -1 play
  [[ $output == *"rank 1: CUDA: allocating state memory failed: "*busy* ]]
}
@test "memory that descriptors alone hold is there until the last context of its GPU ends" {
  export STANDIN_PERSISTENCE=0
  "$built/test/state_memory" held 100000
  run -1 "$built/test/state_memory" left 100000
  [[ $output == *"importing state memory failed: invalid resource handle"* ]]
}
@test "in persistence mode it is there also when no process has a context any more" { "$built/test/state_memory" left 100000; }
