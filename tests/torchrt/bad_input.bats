#!/usr/bin/env bats
# What cannot be trained is refused with one message, and nothing is run.
# limit: 1200
# each: 400
bats_require_minimum_version 1.5.0

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
  [ "$status" != 0 ]
  [ "$(grep -cF -- "$message" <<< "$output")" = 1 ]
  [ ! -e none.jsonl ]
}

@test "layers that cannot fill the stages" {
  refused "espalier: train: rank 0: small.toml: 2 layers cannot fill 3 pipeline stages" ranks 3 --set model.layers=2
}

@test "a plan of other layers, GPUs, or with heads that cannot be divided" {
  plan 4:2@a/0 3:2@a/1 > seven.json
  refused "espalier: train: rank 0: plan: " ranks 2 --plan seven.json
  plan 4:2@a/0 4:2@a/1 > two.json
  refused "plan: has 2 GPUs, the world has 3 ranks" ranks 3 --plan two.json
  plan 8:2@a/0 | sed 's/"tp": 1/"tp": 3/; s|"a/0"|"a/0", "a/1", "a/2"|' > tp.json
  refused "heads" ranks 3 --plan tp.json
  refused "the global batch never changes" ranks 2 --plan two.json --set training.global_batch=16
}

@test "a plan file that is missing or no plan" {
  refused "plan file nowhere.json: cannot be read" ranks 1 --plan nowhere.json
  echo '{"stages": 3}' > broken.json
  refused "espalier: train: rank 0: plan file broken.json: " ranks 1 --plan broken.json
}

@test "a data file that is missing or shorter than one sample" {
  refused "data file nowhere: No such file or directory" ranks 2 --data nowhere
  printf 'too short' > short
  refused "data file short: has 9 bytes, one sample needs 33" ranks 2 --data short
}

@test "an unknown key, an override of one, a missing file" {
  sed 's/^warmup_steps/warmup_stepz/' small.toml > typo.toml
  refused "espalier: train: typo.toml:11: training.warmup_stepz: unknown key" "$train" typo.toml
  refused "espalier: train: --set model.size=3: model.size: unknown key" ranks 2 --set model.size=3
  refused "espalier: train: nowhere.toml: cannot be read" "$train" nowhere.toml
  refused "espalier: train: .: cannot be read" "$train" .
}

# What is wrong with weights, by the words that refuse them.
@test "weights that are truncated, lie, lack a tensor or have one of another shape" {
  python3 - << 'PY'
import json, struct
def write(name, tensors, extra=b""):
    header, data, at = {}, b"", 0
    for key, (dtype, shape, size) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        data += bytes(size)
        at += size
    text = json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data + extra)
    return len(text) + 8
table = {"transformer.wte.weight": ("F32", [256, 64], 65536)}
write("partial.safetensors", table)
write("shape.safetensors", {"transformer.wte.weight": ("F32", [64, 256], 65536)})
write("lying.safetensors", {"transformer.wte.weight": ("F32", [256, 64], 65532)}, b"four")
write("dtype.safetensors", {"transformer.wte.weight": ("F7", [256, 64], 65536)})
whole = open("partial.safetensors", "rb").read()
open("truncated.safetensors", "wb").write(whole[:-100])
PY
  refused "safetensors file truncated.safetensors: tensor transformer.wte.weight: ends at byte 65536 of 65436; the file is truncated" \
    ranks 2 --set model.weights=truncated.safetensors
  refused "safetensors file lying.safetensors: tensor transformer.wte.weight: has 65532 bytes, its shape needs 65536" \
    ranks 2 --set model.weights=lying.safetensors
  refused 'safetensors file dtype.safetensors: tensor transformer.wte.weight: unknown dtype "F7"' \
    ranks 2 --set model.weights=dtype.safetensors
  refused "safetensors file shape.safetensors: tensor transformer.wte.weight: has shape [64, 256], the model needs [256, 64]" \
    ranks 2 --set model.weights=shape.safetensors
  refused "weights partial.safetensors: tensor transformer.wpe.weight: is missing" \
    ranks 1 --set model.weights=partial.safetensors
  refused "safetensors file nowhere: No such file or directory" ranks 1 --set model.weights=nowhere
}

@test "a config.json that is missing or asks for what is not computed" {
  sed -e '/^layers/d; /^hidden/d; /^heads/d' -e 's|^sequence.*|sequence = 32\nconfig = "config.json"|' small.toml > tune.toml
  refused "config.json" "$train" tune.toml
  echo '{"model_type": "mamba"}' > config.json
  refused 'mamba' "$train" tune.toml
}

@test "an export without a checkpoint" {
  refused "espalier: train: export: there is no checkpoint.directory; name a checkpoint with --from" \
    "$train" small.toml --export model
  refused "checkpoint nowhere: is partial: it has no readable manifest.json" "$train" small.toml --export model --from nowhere
  refused "holds no checkpoint" "$train" small.toml --set checkpoint.directory=empty --export model
  refused "--from requires --export" "$train" small.toml --from nowhere
}

@test "wrong arguments" {
  refused "espalier: train: config is required; see --help" "$train"
  refused "espalier: train: " "$train" small.toml --steps -3
  refused "espalier: train: --steps: Value 0 not in range 1 to 1000000000; see --help" "$train" small.toml --steps 0
  refused "espalier: train: --keep: Value 0 not in range 1 to 1000000; see --help" "$train" small.toml --keep 0
  refused "espalier: train: " "$train" small.toml --no-such-option
  refused "espalier: toy: --pause: must be a number" "$built/bin/espalier-toy" --pause nan
}

@test "a result that cannot be written fails and says why, whichever program prints it" {
  unwritten() {
    run --separate-stderr "$BASH" -c '"$@" > /dev/full' full "$@"
    echo "$* gave $status: $stderr"
    [ "$status" != 0 ]
    [[ $stderr == *"standard output: cannot be written"* ]]
  }
  unwritten "$train" --version
  unwritten "$train" small.toml --describe
  unwritten "$train" small.toml --print-schedule 2
  plan 8:2@a/0 > one.json
  unwritten "$train" small.toml --profile-plan one.json --stage 0 --profile-warmup 0 --profile-steps 1
  unwritten "$built/bin/espalier" --help
  unwritten "$built/bin/espalier" schedule --ranks 2 --micro-batches 4
  unwritten "$built/bin/espalier-launch" conform --list
  unwritten "$built/bin/espalier-report" topology --print
  unwritten "$built/bin/espalier-report" --version
  unwritten "$built/bin/espalier-toy" --version
  unwritten "$built/bin/espalierd" --version
}

@test "wrong usage is said by the program's name, and points to the help of the command" {
  said() {
    local words=$1; shift
    run "$@"
    echo "$output"
    [ "$status" != 0 ]
    [[ $output == *"$words"* ]]
  }
  for command in plan simulate schedule doctor calibrate; do
    said "; see espalier $command --help" "$built/bin/espalier" "$command" --no-such-option
  done
  said "; see espalier --help" "$built/bin/espalier" --no-such-option
  said "espalier: report: A subcommand is required; see espalier-report --help" "$built/bin/espalier-report"
  said "espalier: toy: " "$built/bin/espalier-toy" --steps 0
}

@test "a loss that is not a number stops the training and says so" {
  run ranks 2 --set training.learning_rate=10 --set training.minimum_learning_rate=10 --set training.warmup_steps=0 \
    --set training.clip_norm=0 --set training.weight_decay=10 --set training.beta2=0 --steps 300
  echo "$output"
  [ "$status" != 0 ]
  grep -Eq 'train: rank 0: training: step [0-9]+, rank [01]: .*; lower training.learning_rate' <<< "$output"
}
