#!/usr/bin/env bats
# Checkpoints: written beside training, resumed on another layout bit for bit, refused by name when they are damaged.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  [ ! -x "$train" ] || ranks 1 --checksum --metrics reference.jsonl > reference.log
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
  rm -rf kept start
}

saving=(--set checkpoint.directory=kept --set checkpoint.every=4)
# A checkpoint that comes due while the one before is being written is left out.
slowly=(--set device.gflops=4)
weights() { grep '^weights ' "$1"; }
# The run whose output is FILE ended with the weights of the run without interruption.
same_weights() { diff <(weights reference.log) <(weights "$1"); }

# The checkpoints of steps 4 and 8, by 2 ranks, as if the run had ended soon after.
interrupted() { # ARGUMENTS...
  # A checkpoint is left out where the one before it is still being written, as a busy machine may.
  for _ in 1 2 3; do
    rm -rf kept resumed.jsonl
    ranks 2 "${saving[@]}" "${slowly[@]}" --keep 9 --metrics resumed.jsonl "$@"
    [ ! -e kept/step-8/manifest.json ] || break
  done
  [ -e kept/step-12/manifest.json ]
  rm -r kept/step-12
}
flip() { # FILE BYTE: of its end
  python3 - "$@" << 'PY'
import os, sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-int(sys.argv[2]), os.SEEK_END)
    byte = file.read(1)[0]
    file.seek(-1, os.SEEK_CUR)
    file.write(bytes([byte ^ 1]))
PY
}

@test "a resumed training ends with the same weights, on any layout" {
  interrupted
  rm -rf kept/step-8 # it may have been left out all the same
  cp -r kept start
  plan 4:1@a/0,1@a/1 2:2@b/0 2:1@c/0,1@c/1 > mixed.json
  for layout in "1" "3" "5 --plan mixed.json" "5 --plan mixed.json --set training.zero1=true"; do
    rm -r kept; cp -r start kept
    # shellcheck disable=SC2086
    ranks $layout "${saving[@]}" --checksum --metrics resumed.jsonl > resumed.log 2> resumed.err
    grep -q 'resumes after step 4, from kept/step-4' resumed.err
    same_weights resumed.log
    same_losses reference.jsonl resumed.jsonl
  done
  # And back: what replicas wrote with a divided optimizer.
  rm -r kept/step-12
  ranks 2 "${saving[@]}" --checksum > resumed.log
  same_weights resumed.log
}

# bats test_tags=long:2
@test "tensor parallelism: the same weights at the same degree; another one is refused, or relaxed gives close losses" {
  plan 8:2@a/0 | sed 's/"tp": 1/"tp": 2/; s|"a/0"|"a/0", "a/1"|' > cut.json
  plan 4:2@a/0 4:2@b/0 | sed 's/"tp": 1/"tp": 2/g; s|"a/0"|"a/0", "a/1"|; s|"b/0"|"b/0", "b/1"|' > cut-twice.json
  ranks 2 --plan cut.json "${saving[@]}" "${slowly[@]}" --keep 9 --checksum > whole.log
  rm -rf kept/step-8 kept/step-12 # the first may have been left out
  cp -r kept start
  ranks 4 --plan cut-twice.json "${saving[@]}" --checksum > resumed.log
  diff <(weights whole.log) <(weights resumed.log)
  rm -r kept; mv start kept
  cp reference.jsonl resumed.jsonl # whose later lines go
  run ranks 3 "${saving[@]}" --metrics resumed.jsonl
  [ "$status" -ne 0 ]
  [[ $output == *"was written with parallel.tp = 2, small.toml says 1; set it back"* ]]
  ranks 3 "${saving[@]}" --set training.accuracy=relaxed --metrics resumed.jsonl
  same_losses reference.jsonl resumed.jsonl 1e-5
}

@test "a training that is killed goes on where its last checkpoint is" {
  "$train" small.toml "${saving[@]}" --set checkpoint.every=2 --keep 9 --metrics resumed.jsonl 3>&- & training=$!
  # Whichever comes first: those that come due while another is still being written are left out.
  for _ in $(seq 3000); do ! compgen -G 'kept/step-*/manifest.json' > first || break; sleep 0.01; done
  kill -KILL $training 2>/dev/null || true
  wait $training || true
  [ -s first ]
  ranks 3 "${saving[@]}" --checksum --metrics resumed.jsonl > resumed.log
  same_weights resumed.log
  same_losses reference.jsonl resumed.jsonl
}

@test "weights in bfloat16 with their masters resume on other replicas bit for bit" {
  local half=(--set training.dtype=bfloat16 --checksum)
  ranks 1 "${half[@]}" > whole.log
  interrupted "${half[@]}"
  plan 8:1@a/0,1@a/1 > replicas.json
  ranks 2 --plan replicas.json --set training.zero1=true "${saving[@]}" "${half[@]}" > resumed.log
  diff <(weights whole.log) <(weights resumed.log)
}

@test "a finished training has nothing left to do" {
  ranks 2 "${saving[@]}"
  ranks 1 "${saving[@]}" --checksum > again.log
  same_weights again.log
}

# bats test_tags=long:6
@test "a damaged checkpoint is refused by name, and the one before is taken" {
  interrupted
  flip kept/step-8/rank-1.safetensors 5
  ranks 3 "${saving[@]}" --checksum > resumed.log 2> resumed.err
  cat resumed.err
  grep -q 'checkpoint kept/step-8: is damaged: file rank-1.safetensors: tensor .*: its checksum differs; the one before is tried' resumed.err
  grep -q 'resumes after step 4' resumed.err
  same_weights resumed.log
  grep -q 'checkpoint kept/step-8: is damaged, and was renamed to kept/step-8.damaged' resumed.err
  [ ! -e kept/step-8.damaged ] # good ones are newer
  [ -e kept/step-12/manifest.json ] # written anew
  ranks 1 "${saving[@]}" 2> again.err
  [ "$(grep -c damaged again.err)" = 0 ]
}

# bats test_tags=long:1
@test "a partial checkpoint is refused by name, and the one before is taken" {
  interrupted
  rm kept/step-8/rank-0.safetensors
  ranks 2 "${saving[@]}" --checksum > resumed.log 2> resumed.err
  cat resumed.err
  grep -q 'checkpoint kept/step-8: is damaged: safetensors file kept/step-8/rank-0.safetensors: No such file' resumed.err
  same_weights resumed.log
  rm kept/step-12/manifest.json
  ranks 2 "${saving[@]}" --checksum > resumed.log 2> resumed.err
  grep -q 'checkpoint kept/step-12: is partial: it has no readable manifest.json; the one before is tried' resumed.err
  same_weights resumed.log
}

# bats test_tags=long:3
@test "when none is good, the training does not start" {
  interrupted
  rm kept/*/manifest.json
  run ranks 2 "${saving[@]}"
  echo "$output"
  [ "$status" != 0 ]
  [ "$(grep -c 'none of its 2 checkpoints is good' <<< "$output")" = 1 ]
}

# bats test_tags=long:4
@test "a checkpoint of another model is an error by key, for all ranks in one voice" {
  interrupted
  run ranks 2 "${saving[@]}" --set model.layers=4
  echo "$output"
  [ "$status" != 0 ]
  [ "$(grep -c 'checkpoint kept/step-8: was written with model.layers = 8, small.toml says 4' <<< "$output")" = 1 ]
  run ranks 2 "${saving[@]}" --set checkpoint.resume=false
  [[ "$output" == *"holds checkpoints (the newest of step 8) though checkpoint.resume is false"* ]]
}

@test "only the newest are kept" {
  ranks 2 "${saving[@]}" --set checkpoint.every=2 --keep 3
  [ "$(ls kept | wc -l)" -le 3 ]
  [ -e kept/step-12/manifest.json ]
}

# bats test_tags=long:5
@test "a loss that is not a number stops the training by step and rank; the last good checkpoint starts the next" {
  interrupted
  local absurd=(--set training.learning_rate=10 --set training.minimum_learning_rate=10 --set training.clip_norm=0
    --set training.weight_decay=10 --set training.beta2=0 --steps 300 --set training.warmup_steps=0)
  run ranks 2 "${saving[@]}" "${absurd[@]}" --set checkpoint.every=1000
  echo "$output"
  [ "$status" != 0 ]
  grep -Eq 'espalier: train: rank 0: training: step [0-9]+, rank [0-9]+: .*(not a finite number|not a number)' <<< "$output"
  ls kept
  [ -e kept/step-8/manifest.json ]
  ranks 2 "${saving[@]}" --checksum > resumed.log
  same_weights resumed.log
}

@test "a full disk is told, training goes on, the last good checkpoint stays" {
  [ "$(id -u)" = 0 ] || skip "a small file system needs root"
  mkdir -p kept
  export -f ranks in_own_folder; export train
  # Room for one checkpoint of 5 MB and a half.
  run unshare --mount bash -c '
    mount -t tmpfs -o size=8m tmpfs kept
    ranks 2 --set checkpoint.directory=kept --set checkpoint.every=4 --set device.gflops=4 --metrics full.jsonl; echo "status $?"
    ls kept; ranks 1 --set checkpoint.directory=kept --steps 4'
  echo "$output"
  [[ "$output" == *"checkpoint of step 8: "*"No space left on device; training goes on, the last good one is of step 4"* ]]
  [ "$(wc -l < full.jsonl)" = 12 ] # every step was made
  [[ "$output" == *"all steps are done, but the checkpoint of the last one could not be written"* ]]
  [[ "$output" == *$'status 1\nstep-4\nespalier'* ]] # and nothing else is left
  [[ "$output" == *"resumes after step 4, from kept/step-4"* ]]
}

@test "a launcher's first generation resumes" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  interrupted
  echo "{\"first\": $(plan 4:1@a/0,1@a/1 4:2@b/0), \"acts\": []}" > script.json
  STAGE_DIRECTOR_SECONDS=380 timeout -k 5 400 "$here/with_munge.sh" "$director" script.json summary.json -- \
    "$train" small.toml "${saving[@]}" --metrics resumed.jsonl 2> resumed.err
  grep -q 'resumes after step 8' resumed.err
  same_losses reference.jsonl resumed.jsonl
  [ -e kept/step-12/manifest.json ]
  ranks 1 "${saving[@]}" --checksum > resumed.log
  same_weights resumed.log
}

@test "a checkpoint is exported and trained from again" {
  interrupted
  "$train" small.toml "${saving[@]}" --export model --from kept/step-4
  "$train" small.toml "${saving[@]}" --export newest
  [ -e model/config.json ]
  [ -e model/model.safetensors ]
  run cmp -s model/model.safetensors newest/model.safetensors
  [ "$status" = 1 ]
  run "$train" small.toml "${saving[@]}" --export model
  [[ "$output" == *"model/model.safetensors: is there already; choose another folder"* ]]
  timeout 90 "$train" "$here/../../examples/finetune.toml" --set model.config=model/config.json --set model.weights=model \
    --set model.sequence=32 --data text --set data.format=bytes --set training.dtype=float32 --set checkpoint.directory=tuned \
    --steps 2 --metrics tuned.jsonl
  [ -e tuned/step-2/manifest.json ]
  python3 - << 'PY'
import json
first = [json.loads(line)["loss"] for line in open("tuned.jsonl")][0]
before = [json.loads(line)["loss"] for line in open("reference.jsonl")]
assert first < before[0] - 0.2, (first, before[0])
PY
}

@test "a checkpoint is exported though its training's TP degree, seed and batch were others" {
  shape 4 8x2:2 > tp2.json
  ranks 2 --plan tp2.json "${saving[@]}"
  "$train" small.toml "${saving[@]}" --export other-plan
  [ -e other-plan/model.safetensors ]
  "$train" small.toml "${saving[@]}" --set training.seed=9 --set training.global_batch=16 --export other-training
  cmp other-plan/model.safetensors other-training/model.safetensors
  run "$train" small.toml "${saving[@]}" --set model.hidden=32 --export other-model
  [ "$status" != 0 ]
  [[ "$output" == *"was written with model.head_size = 16, small.toml says 8"* ]]
}

@test "checkpoints are written checkpoint.minutes apart, though no step is due" {
  ranks 2 --set checkpoint.directory=kept --set checkpoint.every=0 --set checkpoint.minutes=0.01 "${slowly[@]}" --keep 99 --metrics resumed.jsonl
  ls kept
  [ -e kept/step-12/manifest.json ] # of the last step
  [ "$(ls kept | wc -l)" -ge 2 ]
  same_losses reference.jsonl resumed.jsonl
}
