#!/usr/bin/env bats
# --profile-plan: one stage of a plan on one device, without its peers, against what the whole plan measures of itself.
# limit: 3000
# each: 1000
# early

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  # Every sample takes a block 6 ms forward, 9 ms backward and 3 ms for the weights, the edges a quarter of it: much more
  # than this machine needs.
  python3 -c 'import json
part = {"block": 6.0, "embedding": 1.5, "head": 1.5}
print(json.dumps({"rows": [{"unit": u, "tp": t, "samples": s, "forward_ms": part[u] * s / t, "backward_ms": 1.5 * part[u] * s / t,
                            "weight_gradient_ms": 0.5 * part[u] * s / t, "update_ms": part[u] / t}
                           for u in part for t in (1, 2) for s in (1, 2, 4)]}))' > times.json
  shape 4 4x1:2 4x1:2 > two.json
  shape 4 4x1:2 4x2:1,1 > mixed.json
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

stage_of() { # PLAN STAGE ARGUMENTS...: what one stage measures; no MPI starts it
  local plan=$1 stage=$2
  shift 2
  timeout -k 5 60 "$train" small.toml --profile-plan "$plan" --stage "$stage" "$@"
}
# holds FILE EXPRESSION: over the profile `p` and its units by kind
holds() {
  python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
units = {u["kind"]: u for u in p["units"]}
near = lambda a, b, share=1e-3: abs(a - b) <= share * b
assert eval(sys.argv[2]), (sys.argv[2], {k: v for k, v in p.items() if k != "plan"})' "$@"
}

@test "one unit of each kind is measured, and counts as often as the stage has it" {
  stage_of two.json 0 --set training.accuracy=relaxed --set "device.times=$PWD/times.json" > s0.json
  stage_of two.json 1 --set training.accuracy=relaxed --set "device.times=$PWD/times.json" > s1.json
  holds s0.json '[(u["kind"], u["count"]) for u in p["units"]] == [("embedding", 1), ("block", 4)]'
  holds s1.json '[(u["kind"], u["count"]) for u in p["units"]] == [("block", 4), ("head", 1)]'
  holds s0.json 'near(units["block"]["forward_ms"], 12) and near(units["block"]["backward_ms"], 18)'
  holds s0.json 'near(units["block"]["weight_gradient_ms"], 6) and near(units["block"]["optimizer_ms"], 6)'
  holds s1.json 'near(p["totals"]["forward_ms"], 51) and near(p["totals"]["optimizer_ms"], 25.5)'
  # Of 2 + 8 micro-batches of one block and one edge, not of four blocks.
  holds s0.json 'p["warmup"] == 2 and p["steps"] == 8 and 0.51 < p["device_seconds"] < 2'
  holds s0.json 'p["input_bytes"] == 0 and p["output_bytes"] == 2 * 32 * 64 * 4'
  holds s1.json 'p["output_bytes"] == 0 and p["input_bytes"] == 2 * 32 * 64 * 4'
}

@test "of a table for several hosts the own one counts" {
  python3 -c 'import json, socket, sys
times = json.load(open("times.json"))
print(json.dumps({"hosts": {"elsewhere": {"rows": []}, socket.gethostname(): times}}))' > hosts.json
  stage_of two.json 0 --set training.accuracy=relaxed --set "device.times=$PWD/hosts.json" > s0.json
  holds s0.json 'near(units["block"]["forward_ms"], 12)'
  echo '{"hosts": {"elsewhere": {"rows": []}}}' > elsewhere.json
  refused "hosts: has no table for $(hostname); add one" --profile-plan two.json --stage 0 --set "device.times=$PWD/elsewhere.json"
}

@test "warm-up and timed micro-batches are as many as asked for" {
  stage_of two.json 0 --profile-warmup 1 --profile-steps 3 --set "device.times=$PWD/times.json" > few.json
  holds few.json 'p["warmup"] == 1 and p["steps"] == 3'
}

@test "a tensor-parallel stage computes one rank's shard, and its sums are counted" {
  stage_of mixed.json 0 --set training.accuracy=relaxed > whole.json
  stage_of mixed.json 1 --set training.accuracy=relaxed > shard.json
  holds whole.json 'units["block"]["forward_sums"]["count"] == 0'
  # Two sums of a block's activations forward, two of their gradients backward: one sample of 32 tokens.
  holds shard.json 'units["block"]["forward_sums"] == units["block"]["backward_sums"] == {"count": 2, "bytes": 2 * 32 * 64 * 4}'
  whole=$(python3 -c 'import json; print(next(u["gradient_bytes"] for u in json.load(open("whole.json"))["units"] if u["kind"] == "block"))')
  holds shard.json "0.5 <= units['block']['gradient_bytes'] / $whole < 0.52"
  holds shard.json 'any("tensor-parallel" in text for text in p["not_measured"])'
  holds shard.json 'any("over the replicas" in text for text in p["not_measured"])'
}

@test "memory is that of the whole stage in the real plan" {
  for setting in training.recompute=false training.recompute=true training.dtype=bfloat16 training.zero1=true; do
    rm -f p.jsonl
    ranks 5 --plan mixed.json --set training.accuracy=relaxed --set "$setting" --set profile.path=p.jsonl --set profile.every=4
    for stage in 0 1; do
      stage_of mixed.json $stage --set training.accuracy=relaxed --set "$setting" > s.json
      echo "$setting stage $stage"
      python3 - $stage << 'PY'
import json, sys
stage = int(sys.argv[1])
real = [r for r in json.loads(open("p.jsonl").readlines()[-1])["replicas"] if r["stage"] == stage][0]
p = json.load(open("s.json"))
sums = lambda key, blocks: sum(u["count"] * u[key] for u in p["units"] if (u["kind"] == "block") == blocks)
assert sums("state_bytes", True) == real["state_bytes"] and sums("state_bytes", False) == real["edge_state_bytes"], (p, real)
assert sums("gradient_bytes", True) == real["gradient_bytes"], (p, real)
assert sums("weight_bytes", True) == real["weight_bytes"], (p, real)
assert abs(p["peak_bytes"] / real["peak_bytes"] - 1) < 0.05, (p["peak_bytes"], real["peak_bytes"])
PY
    done
  done
}

# Whether PLAN runs as fast as its profiles say.
follows() { # PLAN
  local plan=$1 stage
  for stage in 0 1; do
    stage_of $plan.json $stage --set training.accuracy=relaxed --set "device.times=$PWD/times.json" > $plan-$stage.json || return 1
  done
  "$built/bin/espalier" plan --profiles=$plan-0.json,$plan-1.json --cluster=cluster.toml --json > step.json || return 1
  rm -f m.jsonl
  ranks "$(grep -o '"a/' $plan.json | wc -l)" --plan $plan.json --set training.accuracy=relaxed --metrics m.jsonl --steps 6 \
    --set "device.times=$PWD/times.json" || return 1
  python3 - << 'PY'
import json
step = json.load(open("step.json"))
real = 1000 * min(json.loads(line)["seconds"] for line in open("m.jsonl").readlines()[1:])
assert 0.95 * step["step_ms"] < real < 1.6 * step["step_ms"], (step, real)  # a loaded machine is slower than its devices
PY
}

@test "the step time of the plan follows from its stages' profiles and the network's figures" {
  [ -x "$built/bin/espalier" ] || skip "espalier is not built"
  cat > cluster.toml << 'TOML'
[[nodes]]
name = "a"
gpus = 8
gpu_type = "h100"
[network]
dp_gb_s = 1
tp_gb_s = 1
nic_gb_s = 1
TOML
  # Other processes may have slowed a stage while it was profiled.
  for plan in two mixed; do
    follows $plan || follows $plan || follows $plan
  done
  "$built/bin/espalier" plan --profiles=two-0.json,two-1.json --cluster=cluster.toml | grep -q '^Plan=pp2 .*'
}

@test "nothing is read or written but the configuration and the plan" {
  stage_of two.json 0 --data nowhere --set checkpoint.directory=nothing --metrics nothing.jsonl > s.json
  [ ! -e nothing ]
  [ ! -e nothing.jsonl ]
}

refused() { # MESSAGE ARGUMENTS...
  local message=$1
  shift
  run timeout 60 "$train" small.toml "$@"
  echo "$output"
  [ "$status" != 0 ]
  [[ "$output" == "espalier: train: "*"$message"* ]]
}

@test "a plan file that is missing" { refused "plan file nowhere.json: cannot be read" --profile-plan nowhere.json --stage 0; }
@test "a plan file that is no plan" {
  echo '{"stages": 3}' > broken.json
  refused "plan file broken.json: " --profile-plan broken.json --stage 0
}
@test "a stage that the plan does not have" { refused "--stage: is 2; the plan has the stages 0 to 1" --profile-plan two.json --stage 2; }
@test "a stage below 0" { refused "--stage: is -1; the plan has the stages 0 to 1" --profile-plan two.json --stage=-1; }
@test "a stage that is no number" { refused "--stage" --profile-plan two.json --stage first; }
@test "no stage" { refused "--profile-plan requires --stage" --profile-plan two.json; }
@test "a stage without a plan" { refused "--stage requires --profile-plan" --stage 1; }
@test "a replica that the stage does not have" {
  refused "--replica: is 2; stage 1 has the replicas 0 to 1" --profile-plan mixed.json --stage 1 --replica 2 --set training.accuracy=relaxed
}
@test "a plan of other layers" { refused "the stages hold 8 layers, the model has 6" --profile-plan two.json --stage 0 --set model.layers=6; }
@test "a plan of another global batch" {
  refused "the global batch never changes" --profile-plan two.json --stage 0 --set training.global_batch=16
}
@test "heads that the plan's tensor-parallel degree does not divide" {
  refused "heads" --profile-plan mixed.json --stage 0 --set model.heads=1 --set training.accuracy=relaxed
}
@test "no timed micro-batch" { refused "--profile-steps" --profile-plan two.json --stage 0 --profile-steps 0; }
@test "a plan to train on beside the plan to profile" { refused "--plan" --profile-plan two.json --stage 0 --plan two.json; }
