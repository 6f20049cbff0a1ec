#!/usr/bin/env bats
# Generations that replace each other while training goes on: a director plays the launcher, workers and mpirun are real.
# Node names in plans decide what moves how, so that one machine serves as several nodes.
# limit: 2400
# each: 900
# early

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

# abort_script FIRST [AFTER PLAN ABORT]...: ABORT is - for an act that is not given up
abort_script() {
  python3 - "$@" << 'PY'
import json, sys
first, rest = sys.argv[1], sys.argv[2:]
acts = [{"after": int(a), "plan": json.loads(p), "abort": None if x == "-" else x}
        for a, p, x in zip(rest[::3], rest[1::3], rest[2::3])]
print(json.dumps({"first": json.loads(first), "acts": acts}))
PY
}
two() { plan 4:2@a/0 4:2@a/1; }
four() { plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1; }

@test "grow to another node and shrink back: every step once, losses equal bit for bit" {
  abort_script "$(two)" 5 "$(four)" - 40 "$(two)" - > script.json
  play
  losses_as_alone
  # Half of the state stays on its node and is adopted; the other half is sent once, in the new world. On the way back
  # it is sent in the old one, but for the embedding: its table is at the head's node already, at the other end.
  acts 'len(acts) == 2 and acts[0]["bytes_copied"] == 0 and acts[0]["bytes_sent"] > 0 and acts[0]["bytes_adopted"] > 0'
  acts 'acts[1]["bytes_copied"] == 12 * 256 * 64 and acts[1]["bytes_adopted"] == acts[0]["bytes_adopted"]'
  acts 'acts[1]["bytes_sent"] + acts[1]["bytes_copied"] == acts[0]["bytes_sent"]'
  acts '["wait" in act["phases_ms"] for act in acts] == [False, True]'
}

@test "the new generation moves what is its own beside what the old one gives, or after it: losses equal bit for bit" {
  # Of three nodes one leaves: its layers come in the old world, and the two that stay exchange in the new one.
  local three pair
  three=$(plan 3:2@a/0 3:2@b/0 2:2@c/0) pair=$(plan 5:2@a/0 3:2@b/0)
  abort_script "$three" 5 "$pair" - 30 "$three" - 55 "$pair" - > script.json
  sed -i 's/"after": 55/"serial": true, &/' script.json
  play
  losses_as_alone
  acts '["wait" in act["phases_ms"] for act in acts] == [True, False, False]'
  acts 'acts[0]["bytes_sent"] == acts[2]["bytes_sent"] > 0'
}

# The validation after step 10 lasts longer than the next generation's start; where the start is slow, once more with a
# longer one.
validation_at_a_boundary() { # COMMAND for sed and the script, --set ...
  local samples edit=$1
  shift
  for samples in 1280 7680; do
    rm -rf elastic.jsonl kept
    abort_script "$(two)" 10 "$(four)" - | sed "$edit" > script.json
    STEPS=12 play --set device.gflops=2 --set data.validation=text --set data.validate_every=10 --set "data.validation_samples=$samples" "$@"
    ! acts 'acts[0]["step"] == 10' || break
  done
  acts 'acts[0]["step"] == 10'
  python3 - << 'PY'
import json
lines = [json.loads(line) for line in open("elastic.jsonl")]
assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13)), lines
assert [(line["step"], line["generation"]) for line in lines if "validation_loss" in line] == [(10, 1), (12, 1)], lines
PY
}

@test "a switch waits for no validation: the next generation makes it" {
  validation_at_a_boundary ""
}

@test "a switch waits for no validation: also a generation that is started from a checkpoint makes it" {
  validation_at_a_boundary 's/"after"/"restart": true, &/g' --set handoff.method=checkpoint --set checkpoint.directory=kept --set checkpoint.every=0
}

@test "a change that is given up leaves the validation that it stopped to those who go on" {
  local samples
  for samples in 1280 7680; do
    rm -f elastic.jsonl
    abort_script "$(two)" 10 "$(four)" switched > script.json
    STEPS=12 play --set device.gflops=2 --set data.validation=text --set data.validate_every=10 --set "data.validation_samples=$samples"
    ! acts 'acts[0]["step"] == 10' || break
  done
  acts 'acts[0]["step"] == 10 and acts[0]["aborted"] == "switched"'
  python3 - << 'PY'
import json
lines = [json.loads(line) for line in open("elastic.jsonl")]
assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13)), lines
assert [(line["step"], line["generation"]) for line in lines if "validation_loss" in line] == [(10, 0), (12, 0)], lines
PY
}

@test "growing on the node moves nothing" {
  abort_script "$(two)" 5 "$(plan 3:2@a/0 2:2@a/1 1:2@a/2 2:2@a/3)" - > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_sent"] == acts[0]["bytes_copied"] == 0 and acts[0]["bytes_adopted"] > 0'
}

# How many memories for gradients there are at most at once, in all processes of this folder.
most_gradients() { # FILE, until it is there
  python3 - "$1" << 'PY'
import glob, os, sys, time
most = 0
while not os.path.exists(sys.argv[1]):
    seen = set()
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            here = os.readlink(link.split("/fd/")[0] + "/cwd") == os.getcwd()
            if here and "memfd:espalier-gradient" in os.readlink(link):
                seen.add(os.stat(link).st_ino)
        except OSError:
            pass  # closed meanwhile
    most = max(most, len(seen))
    time.sleep(0.05)
print(most)
PY
}

@test "gradients of adopted layers are adopted too: a hand-off that moves nothing takes no memory for them" {
  abort_script "$(two)" 5 "$(plan 3:2@a/0 2:2@a/1 1:2@a/2 2:2@a/3)" - 30 "$(two)" - | early 0:1500 > script.json
  rm -f over
  most_gradients over > most 3>&- &
  local watcher=$! played=0
  play || played=1
  touch over
  wait "$watcher"
  [ "$played" = 0 ]
  losses_as_alone
  # Ten units; and while a generation is rehearsed, one for all of each of its ranks.
  cat most
  [ "$(cat most)" -gt 10 ]
  [ "$(cat most)" -le 14 ]
}

@test "migrate to a node neither holder is on, through the one both plans share" {
  abort_script "$(plan 4:2@a/0 4:2@b/0)" 5 "$(plan 4:2@a/0 4:2@c/0)" - 40 "$(plan 1:2@c/1 7:2@d/0)" - > script.json
  play
  losses_as_alone
  acts 'len(acts) == 2'
}

@test "data-parallel growth and shrinking: losses within 1e-5" {
  # Steps are so short that what is sent early is overtaken, mostly.
  abort_script "$(two)" 5 "$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1)" - 40 "$(plan 8:1@a/0,1@a/1)" - 60 "$(two)" - | early 5:0 > script.json
  play
  losses_as_alone 1e-5
  acts 'len(acts) == 3 and acts[1]["bytes_copied"] > 0'
}

# The weights as the old generation left them and as the new one found them.
same_weights() { # HAND-OFFS
  python3 - "$1" << 'PY'
import re, sys
seen = {}
for line in open("play.log"):
    found = re.match(r"generation \d+ after step (\d+): weights ([0-9a-f]{16})$", line.strip())
    if found:
        seen.setdefault(found[1], []).append(found[2])
print(seen)
pairs = [sums for sums in seen.values() if len(sums) == 2]
assert len(pairs) == int(sys.argv[1]) and all(a == b for a, b in pairs)
PY
}
play_checked() { play --checksum "$@" > play.log 2>&1 || { cat play.log; return 1; }; }

@test "layers change their TP degree: the same weights" {
  abort_script "$(two)" 5 "$(plan 8:2@a/0+1)" - 30 "$(plan 4:2@b/0+1 4:2@a/0)" - 50 "$(plan 8:1@a/0+1,1@c/0+1)" - 70 "$(two)" - \
    > script.json
  play_checked
  # Sums in another order: what they differ in grows from step to step, also where nothing is handed over, and soon is
  # chance. What a hand-off may not change is the weights.
  losses_as_alone 5e-2 20
  losses_as_alone 0.5
  same_weights 4
  acts 'len(acts) == 4 and acts[0]["bytes_adopted"] == acts[0]["bytes_sent"] == 0 and acts[0]["bytes_copied"] > 0'
}

@test "ZeRO-1: the optimizer's parts are cut anew, losses equal bit for bit" {
  abort_script "$(plan 8:1@a/0,1@b/0)" 5 "$(plan 4:1@a/0,1@b/0 4:2@c/0)" - 30 "$(plan 8:2@b/0)" - 50 "$(plan 8:1@b/0,1@a/0)" - \
    > script.json
  play_checked --set training.zero1=true
  losses_as_alone
  same_weights 3
}

@test "bfloat16 with master weights and ZeRO-1: the same weights" {
  abort_script "$(plan 8:1@a/0,1@b/0)" 5 "$(plan 4:2@b/0+1 4:1@c/0,1@a/1)" - > script.json
  play_checked --set training.zero1=true --set training.dtype=bfloat16
  same_weights 1
}

@test "a launcher that says nothing is given up after ESPALIER_PATIENCE seconds, and the old generation trains on" {
  script "$(two)" 3 "$(four)" '{"abort": "fails", "late_ms": 300000}' > script.json
  ESPALIER_PATIENCE=15 play --set device.gflops=1
  acts 'acts[0]["message"] == "launcher: no `load` within 15 s; see its log"'
}

# Acts in which state may be sent early, for SECONDS; and the old ones are asked to switch MS after the new ones are ready.
early() { # SECONDS:MS...: of each act; the last stands for all that follow
  python3 -c 'import json, sys
script, words = json.load(sys.stdin), [word.split(":") for word in sys.argv[1:]]
for n, act in enumerate(script["acts"]):
    seconds, late = words[min(n, len(words) - 1)]
    act.update(early=float(seconds), late_ms=int(late))
json.dump(script, sys.stdout)' "$@"
}

@test "sent early, only the gradient in the pause: a third of the bytes, losses and weights equal bit for bit" {
  abort_script "$(two)" 2 "$(four)" - 5 "$(two)" - 8 "$(four)" - 11 "$(two)" - 14 "$(four)" - 17 "$(two)" - 20 "$(four)" - 23 "$(two)" - 26 \
    "$(four)" - | early 5:0 5:0 5:1500 5:0 0.000001:0 5:0 > script.json
  play_checked --set device.gflops=1
  losses_as_alone
  same_weights 9
  # On the way back donors give, who train themselves.
  acts '[act["bytes_sent_early"] for act in acts[1::2]] == [0] * 4'
  # Three that can: a boundary may come between the last look at the marks and the switch.
  acts 'any(act["bytes_sent_early"] == 3 * act["bytes_sent"] > 0 for act in (acts[0], acts[6], acts[8]))'
  # One for which a boundary always comes between, and one in which the sending takes longer than a step.
  acts 'acts[2]["bytes_sent_early"] == 0 < acts[2]["bytes_sent"] and acts[2]["phases_ms"]["early"] > 0'
  acts 'acts[4]["bytes_sent_early"] == 0 < acts[4]["bytes_sent"]'
}

@test "sent early to replicas that share it on their node, divided optimizer state and TP: the same weights" {
  abort_script "$(plan 8:2@a/0)" 2 "$(plan 4:2@a/0 4:1@b/0,1@b/1)" - 6 "$(plan 4:2@c/0+1 4:2@b/0)" - 10 \
    "$(plan 3:2@b/0 3:1@d/0,1@d/1 2:2@c/0+1)" - | early 5:0 > script.json
  play_checked --set device.gflops=1 --set training.dtype=bfloat16 --set training.zero1=true
  same_weights 3
  acts 'any(act["bytes_sent_early"] > 0 for act in acts)'
}

@test "a generation given up in any state costs nothing, and the next one succeeds" {
  abort_script "$(four)" 5 "$(two)" ready 10 "$(two)" switch 20 "$(two)" standing 30 "$(two)" switched 40 "$(two)" loaded 50 \
    "$(two)" - > script.json
  play
  losses_as_alone
  acts '[act.get("aborted") for act in acts] == ["ready", "switch", "standing", "switched", "loaded", None]'
}

# bats test_tags=long:2
@test "ranks that lack what it takes to give their state say so and train on, and the next generation succeeds" {
  abort_script "$(four)" 5 "$(two)" starved 15 "$(two)" - > script.json
  play
  losses_as_alone
  acts '[act.get("aborted") for act in acts] == ["starved", None]'
}

@test "nothing is sent early to whom the user has given another learning rate" {
  abort_script "$(two)" 10 "$(four)" - | early 5:0 > script.json # nobody reads the file anew while it is changed
  cp small.toml kept.toml
  forget_plays
  local played=0
  play --set device.gflops=2 3>&- &
  trains_past 1
  sed -i 's/^learning_rate.*/learning_rate = 2e-3/' small.toml
  wait $! || played=1
  mv kept.toml small.toml
  [ "$played" = 0 ]
  acts 'acts[0]["bytes_sent_early"] == 0 < acts[0]["bytes_sent"] and "early" not in acts[0]["phases_ms"]'
}

@test "a generation that reads other data than the job is refused, unless data.changed lets it go on" {
  abort_script "$(two)" 10 "$(four)" fails 30 "$(four)" - > script.json # nobody opens the file anew while it is changed
  cp text growing
  cp small.toml kept.toml
  forget_plays
  local played=0
  play --set device.gflops=2 --data growing > play.log 2>&1 3>&- &
  trains_past 1
  echo "One more sentence." >> growing
  trains_past 22
  sed -i 's/^path = "text"/&\nchanged = true/' small.toml
  wait $! || played=1
  mv kept.toml small.toml
  cat play.log
  [ "$played" = 0 ]
  acts '[act.get("aborted") for act in acts] == ["fails", None]'
  acts '"data file growing (" in acts[0]["message"] and "is not the one that the job has trained with so far; restore the file, or set data.changed = true" in acts[0]["message"]'
  grep -q "training goes on with this one, because data.changed = true" play.log
}

@test "a generation given up after it was sent state early costs nothing, and the next one succeeds" {
  abort_script "$(two)" 2 "$(four)" ready 5 "$(four)" switched 8 "$(four)" loaded 11 "$(four)" - | early 5:0 > script.json
  play --set device.gflops=2
  losses_as_alone
  acts '[act.get("aborted") for act in acts] == ["ready", "switched", "loaded", None]'
}

@test "copied instead of adopted: losses equal bit for bit, and what stays is copied" {
  abort_script "$(two)" 5 "$(four)" - 40 "$(two)" - | early 5:0 > script.json
  play --set handoff.method=device --set handoff.early=false
  losses_as_alone
  acts 'not any("early" in act["phases_ms"] for act in acts)'
  acts 'len(acts) == 2 and all(act["bytes_adopted"] == 0 and act["bytes_copied"] > 0 for act in acts)'
}

@test "by a checkpoint, written at the boundary and read by processes that were there before: losses equal bit for bit" {
  rm -rf kept
  abort_script "$(two)" 5 "$(four)" - 40 "$(two)" - > script.json
  play --set handoff.method=overlap --set checkpoint.directory=kept --set checkpoint.every=0
  losses_as_alone
  acts 'len(acts) == 2 and all(act["bytes_adopted"] == act["bytes_copied"] == act["bytes_sent"] == 0 for act in acts)'
  acts '__import__("os").path.isdir("kept/step-%d" % acts[1]["step"])'
}

@test "by a checkpoint, read by processes that start when the old ones have gone: losses equal bit for bit" {
  rm -rf kept
  abort_script "$(two)" 5 "$(four)" - 40 "$(two)" - | sed 's/"after"/"restart": true, &/g' > script.json
  play --set handoff.method=checkpoint --set checkpoint.directory=kept --set checkpoint.every=0
  losses_as_alone
  acts 'len(acts) == 2 and all(act["bytes_adopted"] == act["bytes_copied"] == act["bytes_sent"] == 0 for act in acts)'
  acts 'all(act["pause_ms"] >= act["ready_ms"] > 0 for act in acts)'
  acts '__import__("os").path.isdir("kept/step-%d" % acts[1]["step"])'
}

@test "a hand-off by checkpoint that is given up costs nothing, and the next one succeeds" {
  rm -rf kept
  abort_script "$(four)" 5 "$(two)" switch 20 "$(two)" switched 30 "$(two)" loaded 40 "$(two)" - > script.json
  play --set handoff.method=overlap --set checkpoint.directory=kept --set checkpoint.every=7
  losses_as_alone
  acts '[act.get("aborted") for act in acts] == ["switch", "switched", "loaded", None]'
}

@test "whoever may be told to hand over can be asked for its state: the sockets listen before the commit" {
  abort_script "$(two)" 5 "$(four)" - > script.json
  play
  acts 'acts[0]["listening"] == 4'
  grep -q '"first_listening": 2' summary.json
}

@test "SIGTERM, which preemption sends to every process, stops no worker" {
  abort_script "$(two)" > script.json
  forget_plays
  play > play.log 2>&1 3>&- &
  local player=$! pids pid
  trains_past 5
  pids=$(workers_of "$player")
  [ "$(wc -w <<< "$pids")" = 2 ]
  kill -TERM $pids
  trains_past $(($(steps_done) + 20))
  for pid in $pids; do alive "$pid"; done
  kill -KILL "$(director_of "$player")"
  wait "$player" || true
  losses_as_alone
}

@test "without their launcher all workers leave within 3 s" {
  abort_script "$(four)" > script.json
  forget_plays
  # The namespace outlives the director, or its end would end everything.
  timeout -k 5 300 "$here/with_munge.sh" sh -c '"$@"; sleep 60' sh "$director" script.json summary.json -- \
    "$train" small.toml --steps $STEPS --metrics elastic.jsonl > play.log 2>&1 3>&- &
  local player=$! pids
  trains_past 5
  pids=$(workers_of "$player")
  [ "$(wc -w <<< "$pids")" = 4 ]
  kill -KILL "$(director_of "$player")"
  for _ in $(seq 300); do alive $pids || break; sleep 0.1; done
  alive $pids && false
  grep -q "espalier: train: rank [0-3]: the launcher is gone; leaving" play.log
  descendants "$player" | grep -q . # the namespace is still there
  kill "$player"
  wait "$player" || true
}

descendants() { # PID: all below it
  local pid
  for pid in $(pgrep -P "$1"); do echo "$pid"; descendants "$pid"; done
}
called() { descendants "$2" | xargs -n 1 sh -c 'grep -lx "$0" "/proc/$1/comm" 2>/dev/null' "$1" | cut -d/ -f3; } # NAME PID
workers_of() { called espalier-train "$1"; }
director_of() { called stage_director "$1"; }
alive() { # PID...: any of them still runs
  local pid state
  for pid in "$@"; do state=$(grep -s '^State:' "/proc/$pid/status") && [[ $state != *Z* ]] && return 0; done
  return 1
}
