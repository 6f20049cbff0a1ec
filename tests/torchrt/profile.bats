#!/usr/bin/env bats
# What a job measures of itself: told to the launcher, written to files, and without a trace in what is trained.
# limit: 1200
# each: 400

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

# holds FILE EXPRESSION: over the list `profiles` of a file of JSON lines
holds() {
  python3 -c 'import json, sys
profiles = [json.loads(line) for line in open(sys.argv[1])]
replicas = [replica for profile in profiles for replica in profile["replicas"]]
assert eval(sys.argv[2]), (sys.argv[2], profiles)' "$@"
}

@test "the launcher gets profiles of every generation, each of the plan that runs, from rank 0 alone" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  python3 - "$(plan 4:2@a/0 4:2@a/1)" "$(plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1)" > script.json << 'PY'
import json, sys
print(json.dumps({"first": json.loads(sys.argv[1]), "acts": [{"after": 12, "plan": json.loads(sys.argv[2]), "abort": None}]}))
PY
  timeout -k 5 300 "$here/with_munge.sh" "$director" script.json summary.json -- \
    "$train" small.toml --steps 1000000 --set profile.every=4 --set profile.dense=0
  python3 -c 'import json
told = json.load(open("summary.json"))["profiles"]
json.dump(told, open("told.json", "w"))
for generation, stages in ((0, 2), (1, 4)):
    profiles = [one["profile"] for one in told if one["generation"] == generation]
    steps = [one["step"] for one in profiles]
    assert steps and steps == sorted(set(steps)) and all(step % 4 == 0 for step in steps), steps
    for one in profiles:
        assert [r["stage"] for r in one["replicas"]] == list(range(stages)), one
        for r in one["replicas"]:
            assert 0 < r["fwd"] < 1e5 and 0 < r["bwd"] < 1e5 and r["optim"] > 0 and r["comm_fwd"] == 0 and r["sync"] is None
            assert r["peak_bytes"] > r["state_bytes"] + r["edge_state_bytes"] > r["weight_bytes"] > 0'
}

# What each operation of a layer takes on the imitated device: four milliseconds whatever it does, and eight a sample, of
# which TP 2 leaves more than half and TP 4 more than a quarter.
layer_table() {
  python3 -c 'import json
ms = lambda tp, samples: 4 + 8 * samples * {1: 1, 2: 1.2, 4: 1.6}[tp] / tp
print(json.dumps({"rows": [{"unit": u, "tp": t, "samples": s, "forward_ms": ms(t, s), "backward_ms": ms(t, s),
                            "weight_gradient_ms": ms(t, s), "update_ms": 1} for u in ("block", "embedding", "head") for t in (1, 2, 4) for s in (1, 2)]}))' > times.json
}
# measured_layers ACCURACY [OPTION...]: degree and samples of what is told of layers in generation 0 (the same in all its profiles), then
# in generation 1. Each time must be the table's.
measured_layers() {
  python3 - "$1" "$(plan 4:2@a/0 4:2@a/1)" "$(plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1)" > script.json << 'PY'
import json, sys
print(json.dumps({"accuracy": sys.argv[1], "first": json.loads(sys.argv[2]), "acts": [{"after": 6, "plan": json.loads(sys.argv[3]), "abort": None}]}))
PY
  timeout -k 5 300 "$here/with_munge.sh" "$director" script.json summary.json -- \
    "$train" small.toml --steps 1000000 --set profile.every=2 --set profile.dense=0 --set "device.times=$PWD/times.json" "${@:2}"
  python3 -c 'import json
table = {(row["tp"], row["samples"]): 3 * row["forward_ms"] for row in json.load(open("times.json"))["rows"]}
for generation in (0, 1):
    told = [one["profile"].get("layer_times", []) for one in json.load(open("summary.json"))["profiles"] if one["generation"] == generation]
    assert told and all(one == told[0] for one in told), told
    assert all(abs(one["ms"] / table[one["tp"], one["samples"]] - 1) < 0.1 for one in told[0]), (told[0], table)
    # The ends take as long as a layer by this table.
    ends = [one["profile"].get("edge_times") for one in json.load(open("summary.json"))["profiles"] if one["generation"] == generation]
    assert all(one == ends[0] for one in ends) and (ends[0] is None) == (generation == 1), ends
    if ends[0]:
        assert (ends[0]["tp"], ends[0]["samples"]) == (1, 2) and all(abs(ends[0][end] / table[1, 2] - 1) < 0.1 for end in ("first_ms", "last_ms")), ends
    print([(one["tp"], one["samples"]) for one in told[0]])'
}

@test "before its first step a job measures a layer alone, with every degree that the planner may choose" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  layer_table
  run measured_layers relaxed
  echo "$output"
  [ "$status" = 0 ]
  [ "${lines[-2]}" = "[(1, 2), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1)]" ]
  [ "${lines[-1]}" = "[]" ]
}

@test "a degree that the user allows twice is measured once" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  layer_table
  run measured_layers relaxed --set 'training.accuracy="relaxed"' --set 'parallel.tp_degrees=[2, 1, 2]'
  [ "$status" = 0 ]
  [ "${lines[-2]}" = "[(1, 2), (1, 1), (2, 2), (2, 1)]" ]
}

@test "where the degree is fixed, a layer is measured with that one alone" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  layer_table
  run measured_layers bitwise
  [ "$status" = 0 ]
  [ "${lines[-2]}" = "[(1, 2), (1, 1)]" ]
  [ "${lines[-1]}" = "[]" ]
}

@test "an imitated device's table needs no more rows than the plans do: what it has not is not measured" {
  [ "$(id -u)" = 0 ] || skip "a private munged needs root"
  layer_table
  python3 -c 'import json
rows = json.load(open("times.json"))["rows"]
json.dump({"rows": [row for row in rows if (row["tp"], row["samples"]) == (1, 2)]}, open("times.json", "w"))'
  run measured_layers relaxed
  echo "$output"
  [ "$status" = 0 ]
  [ "$(grep -c 'espalier: train: a layer with TP degree 1 and 1 sample(s) is not measured: .*has no row' <<< "$output")" = 1 ]
  [ "$(grep -c 'is not measured' <<< "$output")" = 1 ]
  [ "${lines[-2]}" = "[(1, 2)]" ]
  [ "${lines[-1]}" = "[]" ]
}

@test "replicas report the sums of their gradients, tensor-parallel ranks those in the forward pass" {
  rm -f p.jsonl
  on_shape "4 4x1:1,1 4x2:2" --set profile.every=4 --set profile.dense=0 --set profile.path=p.jsonl
  holds p.jsonl '[p["step"] for p in profiles] == [8, 12]'
  holds p.jsonl 'all(r["sync"] is not None and r["sync"] >= 0 and r["comm_fwd"] == 0 for r in replicas if r["stage"] == 0)'
  holds p.jsonl 'all(r["sync"] is None and 0 < r["comm_fwd"] < r["fwd"] for r in replicas if r["stage"] == 1)'
  holds p.jsonl 'all(p["boundary_bytes"] == 32 * 64 * 4 for p in profiles)'
}

@test "the first steps of a generation are measured one after the other until they agree, and rarely afterwards" {
  rm -f p.jsonl
  ranks 2 --steps 30 --set profile.every=10 --set profile.path=p.jsonl --set device.gflops=0.3
  holds p.jsonl 'profiles[0]["step"] == 5 and profiles[0]["steps"] == 4'
  # On a busy machine they may not agree within 16 steps. Then all of the 30 are measured one after the other.
  agree='any(all(r["spread"] <= 0.02 for r in p["replicas"]) for p in profiles if p["step"] <= 20)'
  holds p.jsonl "profiles[-1]['step'] == 30 if $agree else [p['step'] for p in profiles] == [5, 9, 13, 17]"
  holds p.jsonl "not $agree or all(p['step'] % 10 == 0 for p in profiles if p['step'] > 20)"
  holds p.jsonl 'all(len(p["replicas"]) == 2 and p["steps"] <= 16 for p in profiles)'
  holds p.jsonl 'all(p["shape"]["setting"]["precision"] == "float32" and "0.3 GFLOPS" in p["shape"]["setting"]["runtime"] for p in profiles)'
}

@test "measuring changes no bit" {
  rm -rf quiet.jsonl measured.jsonl trace
  ranks 2 --metrics quiet.jsonl --set profile.every=0
  ranks 2 --metrics measured.jsonl --set profile.every=1 --set profile.trace=trace
  same_losses quiet.jsonl measured.jsonl
}

@test "a trace holds every operation of the measured steps of every rank" {
  rm -rf trace
  ranks 2 --set profile.every=4 --set profile.dense=0 --set profile.trace=trace
  python3 - << 'PY'
import json
for rank in (0, 1):
    events = json.loads(open(f"trace/rank-{rank}.json").read().rstrip().rstrip(",") + "]")
    assert {e["args"]["step"] for e in events} == set(range(5, 13)), events[0]
    forwards = [e for e in events if e["name"] == "forward"]
    assert len(forwards) == 8 * 4 and all(e["dur"] > 0 and e["pid"] == rank for e in forwards)
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1 for a, b in zip(events, events[1:]))
PY
}

@test "tensor-parallel sums of a validation are not recorded as those of the measured step before it" {
  rm -rf trace
  on_shape "4 8x2:2" --set profile.every=4 --set profile.trace=trace --set data.validation=text --set data.validate_every=1
  python3 - << 'PY'
import json
for rank in (0, 1):
    events = json.loads(open(f"trace/rank-{rank}.json").read().rstrip().rstrip(",") + "]")
    summing = {e["name"] for e in events if e["args"]["sums"] > 0}
    assert "forward" in summing and summing <= {"forward", "backward", "weight gradient"}, summing
PY
}

@test "profiles that cannot be written end the run and name the setting" {
  run ranks 2 --set profile.every=2 --set profile.path=/nowhere/p.jsonl
  [ "$status" -ne 0 ]
  [[ "$output" == *"profile.path: /nowhere/p.jsonl cannot be written"* ]]
}

@test "metrics, profiles and traces on a full disk do not end a training, and are told once each" {
  [ -c /dev/full ] || skip "there is no /dev/full"
  mkdir -p full
  ln -sf /dev/full full/rank-0.json
  run ranks 1 --metrics /dev/full --checksum --set profile.every=2 --set profile.dense=0 --set profile.path=/dev/full --set profile.trace=full
  echo "$output"
  [ "$status" = 0 ]
  for key in metrics.path profile.path profile.trace; do
    [ "$(grep -c "espalier: train: $key: .*cannot be written: No space left on device; training goes on" <<< "$output")" = 1 ]
  done
  [[ "$output" == *"metrics.path: /dev/full: 12 lines were lost"* ]]
  [[ "$output" == *"weights "* ]]
}
