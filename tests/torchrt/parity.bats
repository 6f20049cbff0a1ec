#!/usr/bin/env bats
# GPT-2, LLaMA and Qwen2 train as in PyTorch: the same weights by `transformers`, tokens, optimizer, clipping and schedule.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  cd "$BATS_FILE_TMPDIR" || return 1
  python=${TORCH_HOME:?}/../bin/python
  export python
  "$python" -c 'import torch, transformers' 2>/dev/null || return 0
  parity prepare gpt2 llama qwen2 gpt2-gelu llama-bias
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
  [ -f llama-bias/losses.json ] || skip "transformers is not there; make deps gets it"
}

parity() { "$python" "$here/parity.py" "$@"; }

in_family() { # FAMILY RANKS ARGUMENTS...: trains the family's configuration without checkpoints
  local family=$1 number=$2; shift 2
  (cd "$family" && in_own_folder timeout -k 5 300 mpirun --oversubscribe --bind-to none -np "$number" "$train" train.toml "$@" < /dev/null)
}

tp_plan() { # STAGE...: LAYERS:TP:SHARE[,SHARE...]
  python3 - "$@" << 'PY'
import json, sys
rank, stages = 0, []
for text in sys.argv[1:]:
    layers, tp, shares = text.split(":")
    replicas = []
    for share in shares.split(","):
        replicas.append({"share": int(share), "gpus": [f"a/{rank + i}" for i in range(int(tp))]})
        rank += int(tp)
    stages.append({"layers": int(layers), "tp": int(tp), "replicas": replicas})
print(json.dumps({"global_batch": 8, "micro_batches": 2, "stages": stages}))
PY
}

@test "20 steps: every loss within 1e-5, relaxed and bitwise" {
  for family in gpt2 llama qwen2; do
    for accuracy in relaxed bitwise; do
      in_family $family 1 --set training.accuracy=$accuracy --metrics $accuracy.jsonl
      parity losses $family $accuracy.jsonl
    done
  done
}

@test "step 1: every gradient within 1e-4, relaxed and bitwise" {
  local pairs=()
  for family in gpt2 llama qwen2 gpt2-gelu llama-bias; do
    for accuracy in relaxed bitwise; do
      in_family $family 1 --steps 1 --set training.accuracy=$accuracy --set training.beta1=0 --set training.clip_norm=0 \
        --set checkpoint.directory=gradients-$accuracy
      pairs+=("$family" "gradients-$accuracy/step-1")
    done
  done
  parity gradients "${pairs[@]}"
}

@test "attention that can drop computes the same when next to nothing is dropped" {
  in_family gpt2 1 --set training.accuracy=relaxed --set model.attention_dropout=1e-12 --metrics dropped.jsonl
  parity losses gpt2 dropped.jsonl
}

@test "plans of different degrees of everything: every loss within 1e-5 of PyTorch's" {
  tp_plan 4:2:4 > tensor.json
  tp_plan 1:1:3,1 3:2:4 > mixed.json
  tp_plan 1:4:4 2:1:1,3 1:2:4 > eight.json
  for family in gpt2 llama qwen2; do
    for setting in "2 tensor" "4 mixed" "8 eight"; do
      read -r number name <<< "$setting"
      in_family $family "$number" --plan ../"$name".json --set training.accuracy=relaxed --metrics "$name".jsonl
      parity losses $family "$name".jsonl
    done
  done
}

@test "weights that are read and written give the same logits in transformers" {
  for family in gpt2 llama qwen2; do
    in_family $family 1 --steps 1 --set training.learning_rate=0 --set training.minimum_learning_rate=0 \
      --set checkpoint.directory=untouched
    (cd $family && "$train" train.toml --set checkpoint.directory=untouched --export untouched-model)
  done
  parity unchanged gpt2 untouched-model llama untouched-model qwen2 untouched-model
}

@test "weights that were trained give PyTorch's logits in transformers" {
  for family in gpt2 llama qwen2; do
    in_family $family 1 --set checkpoint.directory=trained
    (cd $family && "$train" train.toml --set checkpoint.directory=trained --export trained-model)
  done
  parity logits gpt2 trained-model llama trained-model qwen2 trained-model
}
