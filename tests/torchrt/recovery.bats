#!/usr/bin/env bats
# Ranks and nodes that are lost while they train: a director plays the launcher and keeps the vaults of all nodes. What
# is left is found, and training goes on as if nothing had been.
# limit: 2400
# each: 900

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  source "$BATS_TEST_DIRNAME/plays.bash"
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  prepare
}

two() { plan 4:2@a/0 4:2@a/1; }
replicas() { plan 8:1@a/0,1@b/0; }

@test "a killed rank's state outlives it: the next generation adopts all of it and no step is lost" {
  script "$(two)" 5 "$(two)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["step"] >= 5 and acts[0]["living"] == 0'
  acts 'acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0 and acts[0]["bytes_adopted"] > 0'
}

@test "a recovery that finds no checkpoint writes one after its first step, also where hand-offs go through the disk" {
  for method in adopt overlap; do
    rm -rf kept elastic.jsonl
    script "$(two)" 5 "$(two)" '{"kill": [1]}' > script.json
    play --set "handoff.method=$method" --set checkpoint.directory=kept --set checkpoint.every=0 --set checkpoint.minutes=1000
    losses_as_alone
    acts 'acts[0]["from"] == "generation"'
    acts '__import__("os").path.isfile("kept/step-%d/manifest.json" % (acts[0]["step"] + 1))'
  done
}

@test "a rank that dies while it changes its state: its replica's is taken" {
  script "$(replicas)" 5 "$(replicas)" '{"kill": [0], "torn": true}' 40 "$(replicas)" '{"kill": [1], "torn": true}' > script.json
  play
  losses_as_alone
  acts 'len(acts) == 2 and all(act["from"] == "generation" and act["bytes_sent"] > 0 for act in acts)'
}

@test "a node is lost: the replicas on the others go on, on what is left" {
  script "$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1)" 5 "$(plan 4:2@a/0 4:2@a/1)" '{"lose": ["b"]}' 40 "$(two)" '{"kill": [0, 1]}' > script.json
  play
  losses_as_alone
  acts 'all(act["from"] == "generation" for act in acts) and acts[0]["bytes_sent"] == 0 and acts[0]["step"] < acts[1]["step"]'
}

@test "what is left goes where another plan wants it, also other TP degrees and other nodes" {
  script "$(plan 8:1@a/0,1@b/0)" 5 "$(plan 4:2@a/0 4:2@c/0)" '{"kill": [1]}' 40 "$(plan 2:2@c/1 6:2@a/1+2)" '{"stop": [0]}' \
    > script.json
  play
  losses_as_alone 5e-2 30 # sums in another order drift apart
  losses_as_alone 0.5
  acts 'all(act["from"] == "generation" and act["living"] == 0 for act in acts) and acts[0]["bytes_sent"] > 0'
}

@test "a rank that only stands still is ended by its node's vault before anybody takes its memory" {
  script "$(two)" 5 "$(two)" '{"stop": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["living"] == 0'
}

@test "every worker's heart beats beside its work" {
  script "$(two)" 5 "$(two)" '{"kill": [1]}' > script.json
  play
  grep -q '"heard": 4' summary.json
}

@test "ZeRO-1: all parts outlive their ranks" {
  script "$(replicas)" 5 "$(replicas)" '{"kill": [0]}' 40 "$(plan 4:2@b/0 4:2@a/0)" '{"kill": [1]}' > script.json
  play --set training.zero1=true
  losses_as_alone
  acts 'all(act["from"] == "generation" for act in acts)'
}

@test "ZeRO-1: with a node a part is lost, and the newest checkpoint is taken" {
  script "$(replicas)" 25 "$(plan 8:2@a/0)" '{"lose": ["b"]}' > script.json
  rm -rf saved
  play --set training.zero1=true --set checkpoint.directory=saved --set checkpoint.every=10 --set device.gflops=8
  losses_as_alone
  acts 'acts[0]["from"] == "checkpoint" and acts[0]["step"] >= 10 and acts[0]["step"] % 10 == 0'
}

@test "what a rank left in another precision than is trained in now is not read" {
  script "$(two)" 10 "$(two)" '{"kill": [1]}' > script.json
  cp small.toml kept.toml
  forget_plays
  play --set device.gflops=2 > play.log 2>&1 3>&- &
  trains_past 1
  sed -i 's/^warmup_steps.*/&\ndtype = "bfloat16"/' small.toml
  local played=0
  wait $! || played=1
  mv kept.toml small.toml
  cat play.log
  [ "$played" = 1 ]
  grep -q 'unit [0-9]* has another size in the old generation; the generations must train the same model' play.log
}

@test "what a rank left is not trained on with other data" {
  script "$(two)" 10 "$(two)" '{"kill": [1]}' > script.json
  cp text growing
  forget_plays
  local played=0
  play --set device.gflops=2 --data growing > play.log 2>&1 3>&- &
  trains_past 1
  echo "One more sentence." >> growing
  wait $! || played=1
  cat play.log
  [ "$played" = 1 ]
  grep -q 'data file growing ([0-9]* bytes, .* is not the one that the job has trained with so far; restore the file' play.log
}

@test "a recovery that fails before it is committed leaves the lines of the steps that it would have done again" {
  script "$(plan 4:2@a/0 4:2@b/0)" 10 "$(two)" '{"lose": ["b"]}' > script.json
  python3 -c 'import array
array.array("H", list(open("text", "rb").read())).tofile(open("tokens.bin", "wb"))
array.array("H", [300] * 100000).tofile(open("foreign.bin", "wb"))'
  forget_plays
  local played=0
  play --set device.gflops=2 --data tokens.bin > play.log 2>&1 3>&- &
  trains_past 1
  mv foreign.bin tokens.bin # generation 0 has the other file open; the next one starts anew, and fails in its rehearsal
  wait $! || played=1
  cat play.log
  [ "$played" = 1 ]
  grep -q 'its id 300 is beyond the vocabulary of 256' play.log
  [ "$(steps_done)" -ge 10 ]
}

# A validation takes two seconds or more here, and the loss comes half a second after its step was told.
@test "a validation in which ranks die is made by the next generation, also after the last step" {
  script "$(two)" 10 "$(two)" '{"kill": [1], "at_ms": 500}' 20 "$(two)" '{"kill": [0], "at_ms": 500}' > script.json
  STEPS=20 play --set device.gflops=2 --set data.validation=text --set data.validate_every=10 --set data.validation_samples=320
  acts 'len(acts) == 2 and [(act["from"], act["step"]) for act in acts] == [("generation", 10), ("generation", 20)]'
  python3 - << 'PY'
import json
lines = [json.loads(line) for line in open("elastic.jsonl")]
assert [line["step"] for line in lines if "loss" in line] == list(range(1, 21)), lines
told = [(line["step"], line["generation"]) for line in lines if "validation_loss" in line]
assert told == [(10, 1), (20, 2)], told
PY
}

@test "snapshots on another node: without replicas a lost node costs at most so many steps" {
  script "$(plan 4:2@a/0 4:2@b/0)" 25 "$(two)" '{"lose": ["b"]}' 50 "$(plan 8:2@a/0)" '{"kill": [1], "torn": true}' > script.json
  play --set recovery.snapshot_steps=10
  losses_as_alone
  acts 'all(act["from"] == "snapshot" for act in acts) and acts[0]["step"] % 10 == 0 < acts[0]["step"] and acts[1]["step"] >= 40'
}

@test "snapshots of ZeRO-1's parts, brought to where they are needed" {
  script "$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1)" 25 "$(plan 8:1@a/0,1@c/0)" '{"lose": ["b"]}' 50 "$(two)" '{"lose": ["c"]}' > script.json
  rm -rf saved
  play --set training.zero1=true --set recovery.snapshot_steps=5 --set checkpoint.directory=saved --set checkpoint.every=7
  losses_as_alone
  acts 'acts[0]["from"] in ("snapshot", "checkpoint") and acts[0]["step"] >= 20 and acts[1]["step"] >= 45'
}

@test "a generation that is lost before its first step: the one before it left the state" {
  local before after
  before=$(plan 4:2@a/0 4:2@b/0) after=$(plan 4:2@a/0 4:2@c/0)
  script "$before" 5 "$after" '{}' 0 "$before" '{"lose": ["c"], "at_commit": true}' 30 "$after" '{}' \
    0 "$before" '{"lose": ["c"], "at_commit": true}' 0 "$before" '{"kill": [0], "at_commit": true}' > script.json
  play
  losses_as_alone
  acts 'len(acts) == 5 and [act.get("from") for act in acts] == [None, "earlier", None, "earlier", "generation"]'
  acts 'acts[0]["step"] == acts[1]["step"] and acts[2]["step"] == acts[3]["step"] == acts[4]["step"]'
}

@test "a generation that is lost after its first steps: copies of the one before it are there until it has its own" {
  local before after
  before=$(plan 4:2@a/0 4:2@b/0) after=$(plan 4:2@a/0 4:2@c/0)
  script "$before" 15 "$after" '{}' 0 "$before" '{"lose": ["c"], "at_ms": 0}' 50 "$after" '{}' \
    0 "$before" '{"lose": ["c"], "at_ms": 0}' > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'len(acts) == 4 and all(act["from"] == "snapshot" for act in acts[1::2])'
  acts 'acts[1]["step"] >= acts[0]["step"] - 5 and acts[3]["step"] >= acts[2]["step"] - 5'
}

@test "without a replica or a checkpoint training starts again, and ends as it would have" {
  script "$(plan 4:2@a/0 4:2@b/0)" 5 "$(two)" '{"lose": ["b"]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "start" and acts[0]["step"] == 0'
}

@test "a loss between two hand-offs, and a hand-off after a recovery" {
  script "$(two)" 5 "$(plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1)" '{}' 40 "$(two)" '{"kill": [3]}' 70 "$(two)" '{}' > script.json
  play
  losses_as_alone 1e-5
  acts 'len(acts) == 3 and acts[1]["from"] in ("generation", "start")'
}

@test "at whatever moment ranks die: the same losses, every step once" {
  local wide narrow acts=() i
  wide=$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1) narrow=$(plan 4:2@a/0 4:2@b/0)
  for i in 0 1 2 3 4 5 6 7; do
    acts+=($((12 + 12 * i)) "$([ $((i % 2)) = 0 ] && echo "$narrow" || echo "$wide")" "{\"kill\": [$((i % 2))], \"at_ms\": $((7 * i))}")
  done
  script "$wide" "${acts[@]}" > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'len(acts) == 8 and all(act["from"] in ("generation", "snapshot") for act in acts)'
}

@test "a damaged checkpoint does not hide newer copies in memory, and is set aside" {
  script "$(plan 4:2@a/0 4:2@b/0)" 25 "$(two)" '{"lose": ["b"]}' > script.json
  rm -rf saved
  forget_plays
  play --set recovery.snapshot_steps=10 --set checkpoint.directory=saved --set checkpoint.every=100000 --set device.gflops=2 \
    > play.log 2>&1 3>&- &
  trains_past 3
  mkdir -p saved/step-24 # without a manifest; newer than the snapshot of step 20
  wait $! || { cat play.log; return 1; }
  cat play.log
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] == 20'
  [ -d saved/step-24.damaged ]
  grep -q 'checkpoint saved/step-24: is partial: .*; what else is left is looked at' play.log
  grep -q 'checkpoint saved/step-24: is damaged, and was renamed to saved/step-24.damaged' play.log
}
