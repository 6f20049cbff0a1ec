#!/usr/bin/env bats
# What cannot be trained is refused with one message, and nothing is run.

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

# refused MESSAGE COMMAND...: fails, says MESSAGE once, and leaves no metrics.
refused() {
  local message=$1; shift
  rm -f none.jsonl
  run "$@" --metrics none.jsonl
  echo "$output"
  [ "$status" != 0 ] && [ "$(grep -cF -- "$message" <<< "$output")" = 1 ] && [ ! -e none.jsonl ]
}

@test "layers that cannot fill the stages" {
  refused "espalier: train: rank 0: small.toml: 2 layers cannot fill 3 pipeline stages" ranks 3 --set model.layers=2
}

@test "a plan of other layers, GPUs, or with tensor parallelism" {
  plan 4:2@a/0 3:2@a/1 > seven.json
  refused "espalier: train: rank 0: plan: " ranks 2 --plan seven.json
  plan 4:2@a/0 4:2@a/1 > two.json
  refused "plan: has 2 GPUs, the world has 3 ranks" ranks 3 --plan two.json
  plan 8:2@a/0 | sed 's/"tp": 1/"tp": 2/; s|"a/0"|"a/0", "a/1"|' > tp.json
  refused "tensor-parallel degree 2" ranks 2 --plan tp.json
  refused "the global batch never changes" ranks 2 --plan two.json --set training.global_batch=16
}

@test "a plan file that is missing or no plan" {
  refused "plan file nowhere.json: cannot be read" ranks 1 --plan nowhere.json
  echo '{"stages": 3}' > broken.json
  refused "espalier: train: rank 0: plan file broken.json: " ranks 1 --plan broken.json
}

@test "a data file that is missing or shorter than one sample" {
  refused "data file nowhere: No such file or directory; set data.path" ranks 2 --data nowhere
  printf 'too short' > short
  refused "data file short: has 9 bytes, one sample needs 33" ranks 2 --data short
}

@test "an unknown key, an override of one, a missing file" {
  sed 's/^warmup_steps/warmup_stepz/' small.toml > typo.toml
  refused "espalier: train: typo.toml:11: training.warmup_stepz: unknown key" "$train" typo.toml
  refused "espalier: train: --set model.size=3: model.size: unknown key" ranks 2 --set model.size=3
  refused "espalier: train: nowhere.toml: cannot be read" "$train" nowhere.toml
}

@test "wrong arguments" {
  refused "espalier: train: config is required; see --help" "$train"
  refused "espalier: train: " "$train" small.toml --steps -3
  refused "espalier: train: " "$train" small.toml --no-such-option
}

@test "a loss that is not a number stops the training and says so" {
  run ranks 2 --set training.learning_rate=10 --set training.minimum_learning_rate=10 --set training.warmup_steps=0 \
    --set training.clip_norm=0 --set training.weight_decay=10 --set training.beta2=0 --steps 300
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"is not a finite number; lower training.learning_rate"* ]]
}
