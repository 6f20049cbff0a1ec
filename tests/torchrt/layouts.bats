#!/usr/bin/env bats
# Whatever the layout, the training is the same. Plain mpirun, no launcher.
# limit: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  [ ! -x "$train" ] || ranks 1 --metrics one.jsonl
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

@test "the loss falls" {
  python3 -c '
import json
losses = [json.loads(line)["loss"] for line in open("one.jsonl")]
assert len(losses) == 12 and losses[-1] < 0.8 * losses[0], losses'
}

@test "every metrics line has all its fields" {
  python3 -c '
import json
for line in open("one.jsonl"):
    record = json.loads(line)
    assert set(record) == {"step", "loss", "seconds", "tokens_per_second", "generation", "gpus", "plan"}, record
    assert record["gpus"] == 1 and record["generation"] == 0 and record["plan"].startswith("pp1 dp1 tp1")'
}

@test "pipelines of 2, 4 and 8 stages: losses equal bit for bit" {
  for stages in 2 4 8; do
    ranks $stages --metrics pp$stages.jsonl
    same_losses one.jsonl pp$stages.jsonl
  done
}

@test "uneven stages: losses equal bit for bit" {
  plan 1:2@a/0 5:2@a/1 2:2@a/2 > uneven.json
  ranks 3 --plan uneven.json --metrics uneven.jsonl
  same_losses one.jsonl uneven.jsonl
}

@test "another schedule: losses equal bit for bit" {
  ranks 3 --set training.schedule=gpipe --metrics gpipe.jsonl
  same_losses one.jsonl gpipe.jsonl
}

@test "data parallelism: losses within 1e-5" {
  plan 8:1@a/0,1@a/1 > dp2.json
  ranks 2 --plan dp2.json --metrics dp2.jsonl
  same_losses one.jsonl dp2.jsonl 1e-5
}

@test "stages with different numbers of replicas: losses within 1e-5" {
  plan 3:1@a/0,1@a/1 2:2@b/0 3:1@c/0,1@c/1 > mixed.json
  ranks 5 --plan mixed.json --metrics mixed.jsonl
  same_losses one.jsonl mixed.jsonl 1e-5
}

@test "uneven shares of a larger micro-batch: losses within 1e-5" {
  plan 4:3@a/0,1@a/1 4:1@b/0,2@b/1,1@b/2 | sed 's/"micro_batches": 4/"micro_batches": 2/' > shares.json
  ranks 5 --plan shares.json --metrics shares.jsonl
  ranks 1 --set training.micro_batches=2 --metrics one2.jsonl
  same_losses one2.jsonl shares.jsonl 1e-5
}

@test "the schedule can be printed without training" {
  run "$train" small.toml --print-schedule 2
  [ "$status" = 0 ]
  [[ "$output" == *"rank 1: stage 1 replica 0 units 5-9 samples 0-1"*"backward 3"*"agree"* ]]
}
