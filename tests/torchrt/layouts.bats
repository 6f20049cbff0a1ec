#!/usr/bin/env bats
# Whatever the layout, the training is the same. Plain mpirun, no launcher.
# limit: 1800
# each: 600

relaxed=(--steps 10 --set 'training.accuracy="relaxed"' --set training.learning_rate=1e-3)
# Untied, with fewer key and value heads than heads.
llama=(--set 'model.family="llama"' --set model.key_value_heads=2 --set model.intermediate=96
  --set model.tied_embeddings=false)

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  [ -x "$train" ] || return 0
  ranks 1 "${relaxed[@]}" --metrics one.jsonl
  ranks 1 "${relaxed[@]}" "${llama[@]}" --metrics llama.jsonl
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

# agrees REFERENCE "MICRO_BATCHES STAGE..." ARGUMENTS...: the losses of 10 relaxed steps, within 1e-5.
agrees() {
  local reference=$1; shift
  rm -f it.jsonl
  on_shape "$1" "${relaxed[@]}" --metrics it.jsonl "${@:2}"
  same_losses "$reference" it.jsonl 1e-5
}

@test "the loss falls" {
  python3 -c '
import json
losses = [json.loads(line)["loss"] for line in open("one.jsonl")]
assert len(losses) == 10 and losses[-1] < 0.95 * losses[0], losses'
}

@test "every metrics line has all its fields" {
  python3 -c '
import json
for line in open("one.jsonl"):
    record = json.loads(line)
    assert set(record) == {"step", "time", "loss", "gradient_norm", "learning_rate", "seconds", "tokens_per_second", "mfu",
                           "generation", "gpus", "plan", "micro_batches"}, record
    assert record["gpus"] == 1 and record["generation"] == 0 and record["plan"].startswith("pp1 dp1 tp1")
    assert record["micro_batches"] == 4'
}

@test "relaxed: uneven pipelines with tied embeddings" {
  agrees one.jsonl "4 1x1:2 5x1:2 2x1:2"
  agrees one.jsonl "8 5x1:1 1x1:1 1x1:1 1x1:1" --set 'training.schedule="gpipe"'
}

@test "relaxed: stages with different numbers of replicas and uneven shares" {
  agrees one.jsonl "4 3x1:1,1 2x1:2 3x1:1,1"
  agrees one.jsonl "2 4x1:3,1 4x1:1,2,1"
  agrees one.jsonl "1 6x1:2,5,1 2x1:8"
}

@test "relaxed: tensor parallelism of different degrees, alone and with replicas" {
  agrees one.jsonl "4 8x4:2"
  agrees one.jsonl "4 2x1:2 3x2:2 3x4:2"
  agrees one.jsonl "2 3x2:3,1 5x1:1,2,1"
  agrees one.jsonl "4 5x1:1,1 1x4:2 2x2:2"
}

@test "relaxed: ZeRO-1, with tied tables of different degrees" {
  agrees one.jsonl "2 8x1:1,2,1" --set training.zero1=true
  agrees one.jsonl "2 1x2:3,1 3x1:4 4x1:1,2,1" --set training.zero1=true
}

@test "relaxed: activations computed again" {
  agrees one.jsonl "4 3x2:1,1 5x1:1,1" --set training.recompute=true --set training.zero1=true
}

@test "relaxed: another family with fewer key and value heads, embeddings not tied" {
  agrees llama.jsonl "2 3x2:3,1 5x1:1,2,1" "${llama[@]}"
  agrees llama.jsonl "4 1x1:1,1 5x1:2 2x2:1,1" "${llama[@]}" --set training.zero1=true --set training.recompute=true
}

# weights "MICRO_BATCHES STAGE..." ARGUMENTS...: the checksum of the weights after 20 steps.
weights() {
  on_shape "$1" --steps 20 --checksum "${@:2}" | sed -n 's/^weights //p'
}

@test "bitwise: weights equal whatever the pipeline, replicas, shares, micro-batches, schedule or ZeRO-1" {
  local one; one=$(weights "4 8x1:2" --metrics bitwise.jsonl)
  [ ${#one} = 16 ]
  for layout in "8 3x1:1 5x1:1" "2 1x1:4 1x1:4 1x1:4 5x1:4" "4 8x1:1,1" "1 8x1:1,4,2,1" "2 3x1:3,1 2x1:4 3x1:1,2,1"; do
    [ "$(weights "$layout")" = "$one" ] || { echo "$layout"; false; }
  done
  rm -f it.jsonl
  [ "$(weights "2 4x1:1,3 4x1:2,2" --set 'training.schedule="gpipe"' --metrics it.jsonl)" = "$one" ]
  same_losses bitwise.jsonl it.jsonl
  [ "$(weights "2 8x1:3,1" --set training.zero1=true)" = "$one" ]
  [ "$(weights "4 6x1:2 2x1:1,1" --set training.zero1=true --set training.recompute=true)" = "$one" ]
}

# bats test_tags=long:5
@test "bitwise: weights equal at TP 2, too" {
  local two; two=$(weights "4 8x2:2")
  [ ${#two} = 16 ]
  for layout in "2 3x2:3,1 5x2:4" "8 1x2:1 2x2:1 5x2:1"; do
    [ "$(weights "$layout")" = "$two" ] || { echo "$layout"; false; }
  done
}

@test "bitwise: weights equal in bfloat16 and with dropout" {
  local options=(--set 'training.dtype="bfloat16"' --set model.residual_dropout=0.1 --set model.attention_dropout=0.1
    --set model.embedding_dropout=0.1)
  local one; one=$(weights "4 8x1:2" "${options[@]}")
  [ ${#one} = 16 ]
  [ "$(weights "2 5x1:3,1 3x1:4" "${options[@]}")" = "$one" ]
  [ "$(weights "2 2x1:4 6x1:1,2,1" "${options[@]}" --set training.zero1=true)" = "$one" ]
}

@test "a plan whose TP degree divides no heads is refused" {
  run on_shape "4 4x1:2 4x3:2"
  [ "$status" != 0 ]
  [[ "$output" == *"heads"* ]]
}

@test "sums, gathers and messages of the MPI backend" {
  for number in 1 2 5; do
    timeout -k 5 300 mpirun --oversubscribe --bind-to none -np "$number" "$built/test/collectives"
  done
}

@test "bitwise: the memory in which gradients are summed, and copies of tied ones, are given back for another generation on the same GPU" {
  timeout -k 5 100 "$built/test/released"
}

@test "a micro-batch that is done leaves nothing behind: memory does not grow with the micro-batches of a step" {
  timeout -k 5 100 "$built/test/held"
}

@test "dropout scales what it keeps by 1 / (1 - p), also in bfloat16" {
  timeout -k 5 100 "$built/test/dropout"
}

@test "the schedule can be printed without training" {
  run "$train" small.toml --print-schedule 2
  [ "$status" = 0 ]
  [[ "$output" == *"rank 1: stage 1 replica 0 units 5-9 samples 0-1"*"backward 3"*"send gradient 3"*"weight gradient 3"*"agree"* ]]
}
