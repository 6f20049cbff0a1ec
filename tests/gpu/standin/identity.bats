#!/usr/bin/env bats
# A rank trains on the GPU that Slurm gave it, wherever CUDA counts it.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
  munged
  as_nodes
}
two() { plan 4:2@a/0 4:2@a/2; }
on_gpu() { counted "contexts on GPU $1"; } # as the machine counts them

# with GENERATION VARIABLE...: the ranks of that generation have these variables, as from their rank server
with() {
  printf '%s\n' "${@:2}" > "variables.$1"
  cat > served << SH
#!/bin/bash
export \$(cat "variables.\${ESPALIER_GENERATION:-0}")
exec $built/test/espalier-train-standin "\$@"
SH
  chmod +x served
  train=./served
}

@test "where Slurm counts GPUs in another order than CUDA, ranks go by the place on the bus" {
  with 0 ESPALIER_GPUS=0000:04:00.0,0000:03:00.0,0000:02:00.0,0000:01:00.0
  with 1 ESPALIER_GPUS=0000:04:00.0,0000:03:00.0,0000:02:00.0,0000:01:00.0
  script "$(two)" 3 "$(two)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_adopted"] > 0 and acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0'
  [ "$(on_gpu 3) $(on_gpu 1)" = "2 2" ]
  [ "$(on_gpu 0) $(on_gpu 2)" = "0 0" ]
}

# bats test_tags=short
@test "a GPU that falls off the bus moves no rank of the next generation to another GPU" {
  ids=ESPALIER_GPUS=0000:01:00.0,0000:02:00.0,0000:03:00.0,0000:04:00.0
  with 0 $ids STANDIN_ALLOWED=0,1,2,3
  with 1 $ids STANDIN_ALLOWED=0,2,3
  script "$(two)" 3 "$(two)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_adopted"] > 0'
  [ "$(on_gpu 2) $(on_gpu 3)" = "2 0" ]
}

@test "a rank whose GPU has fallen off the bus says so, and where it was" {
  with 0 ESPALIER_GPUS=0000:01:00.0,0000:02:00.0,0000:03:00.0 STANDIN_ALLOWED=0,1,3
  script "$(two)" 3 "$(two)" '{}' > script.json
  run -1 play
  [[ $output == *"the GPU at 0000:03:00.0 and does not see it; it may have fallen off the bus"* ]]
}

@test "a rank that sees no GPU, where Slurm gave it one, does not train on the processor" {
  with 0 ESPALIER_GPUS=0000:01:00.0,0000:02:00.0,0000:03:00.0 STANDIN_ALLOWED=
  script "$(two)" 3 "$(two)" '{}' > script.json
  run -1 play
  [[ $output == *"the GPU at 0000:01:00.0 and sees no GPU at all"* ]]
}
