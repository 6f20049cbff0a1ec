#!/usr/bin/env bats
# Plans for which no state moves: the running generation goes on with them. A director plays the launcher.
# limit: 1800
# each: 600

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

# What an act of the script needs to be one in place.
stays='{"in_place": true}'

# plans_were PLAN...: what the metrics say of the plans, in their order, as "1 pp2 dp1": generation 1
plans_were() {
  python3 - "$@" << 'PY'
import itertools, json, sys
lines = map(json.loads, open("elastic.jsonl"))
plans = [name for name, _ in itertools.groupby(f"{one['generation']} {one['plan'].split(' |')[0]} {one['micro_batches']}" for one in lines)]
print(*plans, sep="\n")
assert plans == sys.argv[1:], plans
PY
}

# bats test_tags=long:1
@test "bitwise: two stages of two replicas go on in other micro-batches, shares and schedules, and change generations from there" {
  local first other gpipe
  first=$(plan 3:1@a/0,1@a/1 5:1@a/2,1@a/3)
  other=$(in_order "$first" 2 1f1b 3+1 2+2)
  gpipe=$(in_order "$first" 4 gpipe 1+1 1+1)
  script "$first" 5 "$other" "$stays" 25 "$gpipe" "$stays" 45 "$(plan 8:2@a/0)" '{}' 65 "$(in_order "$(plan 8:2@a/0)" 1 1f1b 8)" "$stays" > script.json
  play
  losses_as_alone
  acts '[act.get("in_place") for act in acts] == [True, True, None, True] and acts[2]["generation"] == 1'
  acts 'all(not act.get("problems") for act in acts)'
  plans_were "0 pp2 dp2 tp1 4" "0 pp2 dp2 tp1 1f1b 2" "0 pp2 dp2 tp1 gpipe 4" "1 pp1 dp1 tp1 4" "1 pp1 dp1 tp1 1f1b 1"
}

@test "relaxed, ZeRO-1, snapshots: it goes on as one rank does, and from the state after a change when a rank is lost" {
  local first other
  first=$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1)
  other=$(in_order "$first" 2 zb-h1 1+3 3+1)
  script "$first" 5 "$other" "$stays" 25 "$first" '{"kill": [1]}' 45 "$other" "$stays" > script.json
  play --set training.accuracy=relaxed --set training.zero1=true --set recovery.snapshot_steps=2
  losses_as_alone 5e-2 30 # sums in another order drift apart
  losses_as_alone 0.5
  acts 'acts[0]["in_place"] and acts[1]["from"] in ("generation", "snapshot") and acts[1]["step"] >= 20 and acts[2]["in_place"]'
}

@test "what it cannot take is said by each rank, and training goes on as before" {
  local first other
  first=$(plan 4:2@a/0 4:2@a/1)
  script "$first" 5 "$(plan 3:2@a/0 5:2@a/1)" "$stays" 15 "$(plan 4:2@a/1 4:2@a/0)" "$stays" \
    25 "$(in_order "$first" 4 no-such-schedule)" "$stays" 35 "$(in_order "$first" 3 1f1b)" "$stays" > script.json
  play
  losses_as_alone
  acts '[act["in_place"] for act in acts] == [False] * 4 and all(len(act["problems"]) == 2 for act in acts)'
  acts 'all("state would have to move" in problem for act in acts[:2] for problem in act["problems"])'
  acts 'all("no-such-schedule" in problem for problem in acts[2]["problems"])'
  plans_were "0 pp2 dp1 tp1 4"
}

@test "a snapshot that is due where a change is refused is made all the same" {
  # Asked after step 10, the ranks stand after step 11.
  script "$(plan 4:2@a/0 4:2@b/0)" 10 "$(plan 3:2@a/0 5:2@b/0)" "$stays" 15 "$(plan 8:2@a/0)" '{"lose": ["b"]}' > script.json
  play --set recovery.snapshot_steps=11 --set device.gflops=2
  losses_as_alone
  acts 'acts[0]["in_place"] is False and acts[1]["from"] == "snapshot" and acts[1]["step"] == 11'
}

# bats test_tags=long:4
@test "profiles after a change are of the new plan, and measured anew" {
  local first other
  first=$(plan 4:2@a/0 4:2@a/1)
  other=$(in_order "$first" 8 1f1b 1 1)
  script "$first" 30 "$other" "$stays" 70 "$first" "$stays" > script.json
  play --set profile.every=10 --set profile.dense=16
  python3 - << 'PY'
import itertools, json
profiles = [entry["profile"] for entry in json.load(open("summary.json"))["profiles"]]
runs = [(count, [one["steps"] for one in group]) for count, group in itertools.groupby(profiles, lambda one: one["plan"]["micro_batches"])]
print(runs)
assert [count for count, _ in runs] == [4, 8, 4], runs
assert all(steps[0] <= 4 for _, steps in runs), runs
PY
}

# Lists that no generator makes, as JSON text: 2 stages, all forwards, then the backward passes in parts.
lists() { # MICRO_BATCHES
  python3 - "$1" << 'PY'
import json, sys
count = range(int(sys.argv[1]))
rows = [",".join([f"{s}{kind}{m}" for kind in "FIW" for m in count]) for s in (0, 1)]
print(json.dumps("\n".join(rows) + "\n"))
PY
}

@test "lists that are sent with the plan run from the boundary on, change no bit, and end with the next plan" {
  local first other sent
  first=$(plan 4:2@a/0 4:2@a/1)
  other=$(in_order "$first" 8 1f1b 1 1)
  sent="{\"in_place\": true, \"lists\": $(lists 4)}"
  script "$first" 5 "$first" "$sent" 25 "$other" "$stays" 45 "$first" "$sent" 65 "$first" "$stays" > script.json
  play
  losses_as_alone
  acts '[act["in_place"] for act in acts] == [True] * 4'
  python3 - << 'PY'
import itertools, json
lines = map(json.loads, open("elastic.jsonl"))
runs = [key for key, _ in itertools.groupby((one["micro_batches"], one["plan"].endswith(" | searched lists")) for one in lines)]
print(runs)
assert runs == [(4, False), (4, True), (8, False), (4, True), (4, False)], runs
PY
}

# bats test_tags=long:3
@test "lists that are unsound or of another shape are refused by each rank, and training goes on as before" {
  local first lost
  first=$(plan 4:2@a/0 4:2@a/1)
  lost=$(lists 4 | sed 's/,1W3//')
  script "$first" 5 "$first" "{\"in_place\": true, \"lists\": $(lists 2)}" 15 "$first" "{\"in_place\": true, \"lists\": $lost}" > script.json
  play
  losses_as_alone
  acts '[act["in_place"] for act in acts] == [False] * 2 and all(len(act["problems"]) == 2 for act in acts)'
  acts 'all("lists that were sent: they are for other stages, chunks or micro-batches" in problem for problem in acts[0]["problems"])'
  acts 'all("lists that were sent: row 2: 1W3 is missing" in problem for problem in acts[1]["problems"])'
  plans_were "0 pp2 dp1 tp1 4"
}

@test "a generation that takes over, or recovers, runs the plan's own schedule" {
  local first sent
  first=$(plan 4:2@a/0 4:2@a/1)
  sent="{\"in_place\": true, \"lists\": $(lists 4)}"
  script "$first" 5 "$first" "$sent" 25 "$first" '{"kill": [1]}' 45 "$first" "$sent" 65 "$(plan 3:2@a/0 5:2@a/1)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["in_place"] and acts[2]["in_place"] and acts[1]["step"] >= 20'
  python3 - << 'PY'
import itertools, json
lines = map(json.loads, open("elastic.jsonl"))
runs = [key for key, _ in itertools.groupby((one["generation"], one["plan"].endswith(" | searched lists")) for one in lines)]
print(runs)
assert runs == [(0, False), (0, True), (1, False), (1, True), (2, False)], runs
PY
}

@test "a user's lists run on the plans that they are made for, and at every change the trainer says what runs" {
  local first
  lists 4 | python3 -c 'import json, sys; print(json.load(sys.stdin), end="")' > mine.csv
  first=$(plan 4:2@a/0 4:2@a/1)
  script "$first" 5 "$(in_order "$first" 8 1f1b 1 1)" "$stays" 15 "$(plan 3:2@a/0 3:2@a/1 2:2@a/2)" '{}' 30 "$first" '{}' > script.json
  play --schedule mine.csv > said.log 2>&1
  losses_as_alone
  grep -o 'espalier: train: --schedule: .*' said.log | tee said.txt
  diff said.txt - << 'TEXT'
espalier: train: --schedule: the file's lists run
espalier: train: --schedule: the file's lists are for 4 micro-batches and chunks on the stages 0 1, this plan has 8 micro-batches and chunks on the stages 0 1: it runs 1f1b until a plan has those
espalier: train: --schedule: the file's lists are for 4 micro-batches and chunks on the stages 0 1, this plan has 4 micro-batches and chunks on the stages 0 1 2: it runs 1f1b until a plan has those
espalier: train: --schedule: the file's lists run
TEXT
}
