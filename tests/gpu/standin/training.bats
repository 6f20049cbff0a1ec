#!/usr/bin/env bats
# The CUDA flavour trains as the CPU flavour does, bit for bit: NCCL's lanes and groups, streams and events, on stand-ins that
# hold up work on each stream for a while of its own.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
  export STANDIN_DELAY=500 STANDIN_POISON=1
}

# bats test_tags=short
@test "pipeline, replicas and tensor parallelism: the same weights" {
  same_weights "4 4x1:1,1 4x2:2" --steps 5
}
@test "uneven shares: the same weights" { same_weights "2 3x2:3,1 5x1:1,2,1" --steps 4; }
@test "three stages, tied embeddings: the same weights" { same_weights "4 1x1:2 5x1:2 2x1:2" --steps 4; }
@test "ZeRO-1: the same weights" { same_weights "2 1x2:3,1 7x1:1,2,1" --steps 4 --set training.zero1=true; }
@test "bfloat16 with master weights: the same weights" {
  same_weights "4 4x1:1,1 4x2:2" --steps 4 --set training.dtype=bfloat16 --set training.zero1=true
}
@test "activations computed again: the same weights" { same_weights "4 3x2:1,1 5x1:1,1" --steps 4 --set training.recompute=true; }
@test "another family, untied: the same weights" {
  same_weights "4 4x1:1,1 4x2:2" --steps 4 --set 'model.family="llama"' --set model.key_value_heads=2 --set model.intermediate=96 \
    --set model.tied_embeddings=false
}
@test "dropout: the same weights" { same_weights "4 4x1:1,1 4x1:2" --steps 4 --set model.attention_dropout=0.1 --set model.residual_dropout=0.1; }
@test "gpipe: the same weights" { same_weights "8 5x1:1 1x1:1 2x1:1" --steps 4 --set 'training.schedule="gpipe"'; }
@test "zero bubble: the same weights" { same_weights "4 4x1:2 4x1:2" --steps 4 --set 'training.schedule="zb-h1"'; }
@test "interleaved chunks: the same weights" {
  same_weights "4 4x1:2 4x1:2" --steps 4 --set 'training.schedule="interleaved"' --set parallel.chunks=2
}

# bats test_tags=short
@test "what bit-identical sums cost on a GPU is said once, and only where they are on" {
  [ "$(on_shape "4 4x1:2 4x1:2" --steps 2 2>&1 | grep -c 'accuracy = "bitwise" makes steps on a GPU longer')" = 1 ]
  run -0 on_shape "4 4x1:2 4x1:2" --steps 2 --set training.accuracy=relaxed
  [[ $output != *bitwise* ]]
  train=$alone run -0 on_shape "4 4x1:2 4x1:2" --steps 2
  [[ $output != *bitwise* ]]
}
# bats test_tags=short
@test "torch reads no CUBLAS_WORKSPACE_CONFIG before each product, unless it limits memory" {
  CUBLAS_WORKSPACE_CONFIG=:4096:8 on_shape "2 8x1:4" --steps 2
  [ "$(counted products)" -gt 0 ]
  [ "$(counted slow_products)" = 0 ]
  CUBLAS_WORKSPACE_CONFIG=:16:8 on_shape "2 8x1:4" --steps 2
  [ "$(counted slow_products)" -gt 0 ]
}
# bats test_tags=short
@test "whatever the order in which streams get on: the same weights" {
  local seed first='' now
  for seed in 1 2 3; do
    now=$(STANDIN_DELAY=3000 STANDIN_SEED=$seed weights "$train" "4 4x1:1,1 4x2:2" --steps 2)
    [ "${first:=$now}" = "$now" ]
  done
}

@test "relaxed: losses within 1e-5" {
  local relaxed=(--steps 8 --set 'training.accuracy="relaxed"' --set training.learning_rate=1e-3)
  (train=$alone; ranks 1 "${relaxed[@]}" --metrics one.jsonl)
  local shape
  for shape in "2 3x2:3,1 5x1:1,2,1" "4 5x1:1,1 1x4:2 2x2:2"; do
    rm -f it.jsonl
    on_shape "$shape" "${relaxed[@]}" --metrics it.jsonl
    same_losses one.jsonl it.jsonl 1e-5
  done
  rm -f it.jsonl
  on_shape "2 8x1:1,2,1" "${relaxed[@]}" --metrics it.jsonl --set training.zero1=true
  same_losses one.jsonl it.jsonl 1e-5
}

@test "validation, a profile and checkpoints: the same weights, and again after a stop" {
  local words=(--set 'data.validation="text"' --set data.validate_every=2 --set checkpoint.every=3)
  same_weights "4 4x1:1,1 4x2:2" --steps 6 "${words[@]}" --set 'checkpoint.directory=""'
  local whole
  whole=$(weights "$train" "4 4x1:1,1 4x2:2" --steps 6 "${words[@]}" --set 'checkpoint.directory="whole"')
  weights "$train" "4 4x1:1,1 4x2:2" --steps 6 "${words[@]}" --set 'checkpoint.directory="part"' --set profile.every=2 \
    --set 'profile.path="profile.jsonl"' > /dev/null
  rm -rf part/*6
  [ "$(weights "$alone" "4 4x1:2 4x2:1,1" --steps 6 "${words[@]}" --set 'checkpoint.directory="part"')" = "$whole" ] # TP stays, since sums depend on it
}

@test "a checkpoint's copies leave the GPU without waits between them, to memory that it reaches by itself" {
  local before after
  weights "$train" "4 8x1:2" --steps 3 --set 'checkpoint.directory="none"' > /dev/null
  before=$(counted bytes_to_pageable) syncs=$(counted device_syncs)
  ready # counts anew
  weights "$train" "4 8x1:2" --steps 3 --set 'checkpoint.directory="each"' --set checkpoint.every=1 > /dev/null
  after=$(counted bytes_to_pageable)
  ls each
  echo "$before and $after bytes to pageable memory, $syncs and $(counted device_syncs) waits for all of the GPU"
  [ "$after" = "$before" ]
  [ "$(counted device_syncs)" = "$syncs" ]
}

@test "two ranks on one GPU are refused by NCCL, and the ranks say so" {
  run -1 env CUDA_VISIBLE_DEVICES=0 STANDIN_GPUS=1 bash -c 'source "$1/common.bash"; cd "$2"; export STANDIN_GPUS=1; ranks 2 --steps 2' - \
    "$BATS_TEST_DIRNAME" "$BATS_FILE_TMPDIR"
  [[ $output == *"sees 1; start one rank per GPU"* ]]
}

@test "the profile of a stage knows the activations' memory, though the GPU's allocator keeps what was used before" {
  shape 4 4x1:2 4x1:2 > two.json
  for stage in 0 1; do
    for flavour in "$alone" "$train"; do
      STANDIN_GPUS=1 timeout -k 5 60 "$flavour" small.toml --profile-plan two.json --stage $stage --set training.accuracy=relaxed \
        > "stage-${flavour##*/}.json"
    done
    python3 - "stage-${alone##*/}.json" "stage-${train##*/}.json" << 'PY'
import json, sys
on_cpu, on_gpu = (json.load(open(name)) for name in sys.argv[1:])
for a, b in zip(on_cpu["units"], on_gpu["units"]):
    for key in ("held_bytes", "pending_bytes", "working_bytes"):
        assert abs(a[key] - b[key]) <= 0.02 * a[key] + 65536, (a["kind"], key, a[key], b[key])
    assert b["held_bytes"] > 0, b
assert abs(on_cpu["peak_bytes"] - on_gpu["peak_bytes"]) <= 0.05 * on_cpu["peak_bytes"], (on_cpu["peak_bytes"], on_gpu["peak_bytes"])
PY
  done
}
