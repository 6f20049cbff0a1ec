#!/usr/bin/env bats
# Multi-token prediction: as in PyTorch, and the same bits wherever a plan puts the modules.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  sed -i 's/^layers = 8/family = "llama"\nlayers = 4\nmtp_layers = 2/' small.toml
  [ -x "$train" ] || return 0
  ranks 1 --steps 4 --checksum --metrics one.jsonl > one.txt
  python=${TORCH_HOME:?}/../bin/python
  export python
  "$python" -c 'import torch, safetensors' 2>/dev/null || return 0
  parity prepare one 1
  parity prepare two 2 tied
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  prepare
}

parity() { "$python" "$here/mtp_parity.py" "$@"; }
needs_torch() { [ -f two/losses.json ] || skip "PyTorch for Python is not there; make deps gets it"; }
# in_folder FOLDER RANKS ARGUMENTS...
in_folder() {
  local folder=$1 number=$2; shift 2
  (cd "$folder" && in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np "$number" "$train" train.toml "$@" < /dev/null)
}

# bats test_tags=long:6
@test "20 steps: every loss of the model and of the modules within 1e-5 of PyTorch's" {
  needs_torch
  for folder in one two; do
    for accuracy in relaxed bitwise; do
      in_folder $folder 1 --set training.accuracy=$accuracy --metrics $accuracy.jsonl
      parity losses $folder $accuracy.jsonl
    done
  done
}

@test "step 1: every gradient within 1e-4 of PyTorch's" {
  needs_torch
  for folder in one two; do
    for accuracy in relaxed bitwise; do
      in_folder $folder 1 --steps 1 --set training.accuracy=$accuracy --set training.beta1=0 --set training.clip_norm=0 \
        --set checkpoint.directory=gradients-$accuracy
      parity gradients $folder gradients-$accuracy/step-1
    done
  done
}

@test "tensor parallelism, stages and replicas: every loss within 1e-5 of PyTorch's" {
  needs_torch
  shape 2 5x2:4 > tensor.json
  shape 2 2x1:3,1 3x2:4 > mixed.json
  in_folder two 2 --plan ../tensor.json --set training.accuracy=relaxed --metrics tensor.jsonl
  parity losses two tensor.jsonl
  in_folder two 4 --plan ../mixed.json --set training.accuracy=relaxed --metrics mixed.jsonl
  parity losses two mixed.jsonl
}

@test "exported weights have DeepSeek-V3's names, and are PyTorch's after the same training" {
  needs_torch
  in_folder one 1 --set checkpoint.directory=trained
  (cd one && "$train" train.toml --set checkpoint.directory=trained --export exported)
  parity exported one exported
  grep -q '"num_nextn_predict_layers": 1' one/exported/config.json
}

# same RANKS|SHAPE ARGUMENTS...: losses of every step, the modules' too, and the weights, bit for bit as of one rank.
same() {
  rm -f it.jsonl
  local run=on_shape
  [[ "$1" == *" "* ]] || run=ranks
  "$run" "$1" --steps 4 --checksum --metrics it.jsonl "${@:2}" > it.txt || { echo "failed: $*"; return 1; }
  same_bits "$*"
}
same_bits() {
  same_losses one.jsonl it.jsonl && diff <(grep ^weights one.txt) <(grep ^weights it.txt) || { echo "differs: $1"; return 1; }
  python3 -c '
import json
ours, alone = ([json.loads(line)["mtp_loss"] for line in open(name)] for name in ("it.jsonl", "one.jsonl"))
assert ours == alone and min(ours) > 0, (ours, alone)'
}

@test "bitwise: one to three stages, in one chunk and in several, under several schedules" {
  local pp name chunks
  for pp in 1 2 3; do
    while read -r name chunks; do
      same "$pp" --set "training.schedule=\"$name\"" --set "parallel.chunks=$chunks"
    done << 'TABLE'
1f1b 1
interleaved 2
zb-h1 1
zb-v 2
TABLE
  done
}

@test "bitwise: a module on a stage of its own, and beside layers; replicas, ZeRO-1, recomputing" {
  same "4 4x1:2 1x1:2 1x1:2"
  same "4 3x1:2 2x1:1,1 1x1:2" --set training.zero1=true
  same "2 2x1:1,3 4x1:4" --set training.recompute=true
}

@test "bitwise: modules in chunks on the first rank, and the head on another" {
  # Stage 0: embedding and 2 layers, then both modules. Stage 1: 2 layers, then the head alone.
  chunked "$(shape 4 3x1:2 3x1:2)" interleaved 0:2 1:2 0:2 1:0 > apart.json
  rm -f it.jsonl
  ranks 2 --plan apart.json --steps 4 --checksum --metrics it.jsonl > it.txt
  same_bits apart
}

@test "validation is of the model's own head, the same in every layout" {
  python3 -c 'print(open("text").read()[:20000])' > held
  local validation=(--steps 2 --set data.validation=held --set data.validate_every=2)
  local setting
  for setting in "1" "2" "3 --set training.schedule=\"interleaved\""; do
    rm -f "validated-${setting%% *}.jsonl"
    # shellcheck disable=SC2086
    ranks ${setting} "${validation[@]}" --metrics "validated-${setting%% *}.jsonl"
  done
  # Where nothing is learnt, the model's own loss is that of the model without modules.
  rm -f plain.jsonl none.jsonl
  local still=(--set training.learning_rate=0 --set training.minimum_learning_rate=0)
  ranks 1 "${validation[@]}" "${still[@]}" --metrics none.jsonl
  ranks 1 "${validation[@]}" "${still[@]}" --set model.mtp_layers=0 --metrics plain.jsonl
  python3 -c '
import json
def losses(name):
    return [line["validation_loss"] for line in map(json.loads, open(name)) if "validation_loss" in line]
assert losses("validated-1.jsonl") and losses("validated-1.jsonl") == losses("validated-2.jsonl") == losses("validated-3.jsonl")
assert losses("none.jsonl") and losses("none.jsonl") == losses("plain.jsonl")
assert all("mtp_loss" not in line for line in open("plain.jsonl"))'
}

@test "a checkpoint of one layout is read by another, and not by a model of other modules" {
  rm -rf saved it.jsonl
  ranks 2 --steps 2 --set checkpoint.directory=saved --set checkpoint.every=2
  run ranks 2 --steps 4 --set checkpoint.directory=saved --set model.mtp_layers=1
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"was written with model.mtp_layers = 2, small.toml says 1"* ]]
  run ranks 2 --steps 4 --set checkpoint.directory=saved --set model.mtp_layers=0
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"was written with model.mtp_layers = 2, small.toml says 0"* ]]
  ranks 3 --steps 4 --checksum --set checkpoint.directory=saved --metrics it.jsonl > it.txt
  diff <(grep ^weights one.txt) <(grep ^weights it.txt)
}

@test "bitwise: generations that put the modules elsewhere take over from each other" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  local two three apart
  two=$(plan 3:2@a/0 3:2@a/1)
  three=$(plan 4:2@a/0 1:2@a/1 1:1@b/0,1@b/1)
  apart=$(chunked "$(plan 3:2@a/0 3:2@b/0)" interleaved 0:2 1:2 0:2 1:0)
  python3 - "$two" "$three" "$apart" > script.json << 'PY'
import json, sys
two, three, apart = map(json.loads, sys.argv[1:])
print(json.dumps({"first": two, "acts": [{"after": after, "plan": plan, "abort": None}
                                         for after, plan in ((5, three), (30, apart), (55, two))]}))
PY
  play
  losses_as_alone
  acts 'len(acts) == 3 and acts[0]["bytes_sent"] > 0'
}

# refused TEXT ARGUMENTS...: one rank says so and leaves.
refused() {
  run ranks 1 "${@:2}"
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"$1"* ]]
}

@test "modules in a family without them are refused" {
  refused 'model.mtp_layers: is no key of family "gpt2", which has no multi-token prediction; remove it' --set 'model.family="gpt2"'
}
@test "a negative number of modules is refused" { refused "model.mtp_layers: " --set model.mtp_layers=-1; }
@test "a number of modules that is none is refused" { refused "model.mtp_layers: " --set 'model.mtp_layers="two"'; }
@test "as many modules as tokens are refused" {
  refused "model.mtp_layers: is 32, must be less than sequence = 32" --set model.mtp_layers=32
}
@test "a weight below 0, above 10, or not a number is refused" {
  refused "model.mtp_weight: " --set model.mtp_weight=-0.1
  refused "model.mtp_weight: " --set model.mtp_weight=10.5
  refused "model.mtp_weight: " --set model.mtp_weight=nan
}
@test "a weight without modules is refused" {
  refused "model.mtp_weight: is the weight of the loss of MTP modules" --set model.mtp_layers=0 --set model.mtp_weight=0.1
}
@test "a plan without the modules, and one with a module too many, are refused" {
  shape 4 4x1:2 > missing.json
  refused "the stages hold 4 layers, the model has 6" --plan missing.json
  shape 4 7x1:2 > doubled.json
  refused "the stages hold 7 layers, the model has 6" --plan doubled.json
}
@test "modules beside those of model.config are refused" {
  needs_torch
  run in_folder one 1 --set model.mtp_layers=2
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"model.mtp_layers: is 2, model.config says 1; remove it"* ]]
}
@test "weights without the modules' are refused" {
  needs_torch
  "$python" - << 'PY'
from safetensors.torch import load_file, save_file
import os
os.makedirs("one/plain", exist_ok=True)
weights = load_file("one/model/model.safetensors")
save_file({name: value for name, value in weights.items() if "eh_proj" not in name}, "one/plain/model.safetensors")
PY
  run in_folder one 1 --set 'model.weights="plain"'
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"tensor model.layers.3.eh_proj.weight: is missing"* ]]
}
@test "measuring one stage of a model with modules is refused" {
  shape 4 6x1:2 > whole.json
  run timeout 60 "$train" small.toml --profile-plan whole.json --stage 0
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == *"a model with MTP modules is measured only while it trains"* ]]
}
