# Other pipeline schedules than 1F1B: live jobs keep theirs, or the planner chooses it, and no loss changes by a bit.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# A trains on two GPUs of n1 with a schedule and one replica, so that it grows by stages. Sets A, near, far.
scheduled() { # RANGE SCHEDULE [OPTION...]
  local range=$1 schedule=$2
  shift 2
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A "$range" -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set training.schedule="$schedule" "$@" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
}
plans() { sed -n 's/.*"plan":"\([^|]*\) |.*/\1/p' "$BOX/home/A.jsonl" | uniq; } # "pp2 dp1 tp1 zb-v", in turn

@test "a job with chunks in a V grows and shrinks, keeps its schedule, and loses no bit" {
  local urgent
  scheduled 2:4 zb-v --set parallel.dp=1
  plans | grep -qx 'pp2 dp1 tp1 zb-v'
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  plans | tail -n 1 | grep -qx 'pp4 dp1 tp1 zb-v'
  urgent=$(plain urgent -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 60 "the waiting job starts" job_is "$urgent" RUNNING
  wait_for 60 "A runs on 2 GPUs" runs_on A 2
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  plans
  [ "$(plans | sed 's/.* //' | sort -u)" = zb-v ]
  [ "$(plans | wc -l)" -ge 3 ]
  finish urgent
  goes_on_well
}

@test "the scale table tells what a measured job would reach, by two predictions, and is kept" {
  scheduled 2:8 interleaved --set parallel.dp=1 --set device.gflops=0.5 # paced, so that its profile is calm soon
  wait_for 120 "A is measured" eval 'as_user espalier show scale "$A" > "$BOX/log/scale" 2>&1'
  cat "$BOX/log/scale"
  grep -q "JobId=$A .*Scales=stages and replicas" "$BOX/log/scale"
  grep -q '^GPUs=2 Usable=yes Schedule=interleaved Chunks=2' "$BOX/log/scale"
  grep -q 'Plan=pp4 dp1 tp1 interleaved' "$BOX/log/scale"
  # Its measured stages, under other schedules; the same from what `show job` told.
  as_user espalier schedule --job "$A" | tee "$BOX/log/schedule"
  grep -q "^job $A: 2 stages, .* interleaved. Times in ms" "$BOX/log/schedule"
  grep -q '^zb-v' "$BOX/log/schedule"
  as_user espalier show job "$A" --json > "$BOX/log/job.json"
  as_user espalier schedule --job "$A" --kind interleaved --json > "$BOX/log/live.json"
  as_user espalier schedule --profile "$BOX/log/job.json" --kind interleaved --json > "$BOX/log/kept.json"
  python3 - "$BOX" << 'P'
import json, statistics, sys
box = sys.argv[1]
steps = [json.loads(line)["seconds"] for line in open(f"{box}/home/A.jsonl") if line.endswith("\n")]
step = statistics.median(steps[-20:])
live, kept = (json.load(open(f"{box}/log/{name}.json"))["time"] for name in ("live", "kept"))
print(f"# predicted {live:.0f} ms of pipeline, kept {kept:.0f}; a step takes {1000 * step:.0f} ms")
assert 0.5 * 1000 * step < live < 1.3 * 1000 * step and 0.5 < kept / live < 2
P
  as_user espalier show scale "$A" --json > "$BOX/log/scale.json"
  python3 - "$BOX/log/scale.json" << 'P'
import json, sys
rows = json.load(open(sys.argv[1]))["scale"]["rows"]
assert [row["gpus"] for row in rows] == list(range(2, 9)), rows
assert rows[0]["speedup_profiled"] == rows[0]["speedup_modelled"] == 1, rows[0]
four = next(row for row in rows if row["gpus"] == 4)
assert 1.2 < four["speedup_profiled"] < 2.2 and 1.2 < four["speedup_modelled"] < 2.2, four
assert all(0 < row["peak_bytes"] for row in rows if row["plan"]), rows
assert all(row["plan"] or row["dropped"] for row in rows), rows
P
  # Kept by the store, and not for everybody to see where jobs are private.
  "$BOX_HERE/planner.sh" kill
  "$BOX_HERE/planner.sh" start
  wait_for 30 "the planner is back" eval 'as_user espalier show scale "$A" > /dev/null 2>&1'
  run as_user espalier show scale 4711
  [ "$status" -eq 1 ]
  [[ $output == *"job 4711: not an elastic job that this planner has seen"* ]]
  run as_user espalier show scale
  [ "$status" -eq 2 ]
  goes_on_well
}

@test "with \"auto\" the planner chooses the schedule, at the start and when the job grows, and no loss changes" {
  scheduled 2:4 auto --set parallel.dp=1
  plans
  plans | head -n 1 | grep -q '^pp2 dp1 tp1 [a-z0-9-]*$'
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  plans
  # Four stages of two layers, four micro-batches: a shorter fill than 1F1B's pays.
  refute grep -q 1f1b <<< "$(plans | tail -n 1)"
  goes_on_well
}

# A has done enough steps on its plan's own lists, and on searched ones: the shortest go to log/both.
both_ran() {
  python3 - "$BOX/home/A.jsonl" "$BOX/log/both" << 'P'
import json, sys
own, searched = [], []
for line in open(sys.argv[1]):
    step = json.loads(line)
    if step.get("plan", "").startswith("pp3 ") and step.get("seconds"):
        (searched if step["plan"].endswith(" | searched lists") else own).append(step["seconds"])
if len(own) < 5 or len(searched) < 20: # a profile is of four steps or more after the first
    sys.exit(1)
before, after = min(own[1:]), min(searched[1:]) # a paced step is never shorter, and longer beside what else starts
open(sys.argv[2], "w").write(f"{before} {after}\n")
P
}

@test "with \"auto\" a job goes on with lists that were searched beside training: shorter steps, the same losses" {
  # Three stages and four micro-batches: zb-v's fill is long there, and there is room for more activations.
  A=$(elastic A 3:3 -N1 -n1 -w n1 --gres=gpu:3 -- "${tiny[@]}" --set device.gflops=0.06 --set training.schedule=auto \
    --set parallel.pp=3 --set parallel.micro_batches=4 --set metrics.progress_every=0 --steps 1000000)
  wait_for 120 "A has done 20 steps on searched lists" both_ran
  sed -n 's/^.*\(espalier: launch: lists searched.*\)/# \1/p; s/^.*\(espalier: launch: paused.*in place\)/# \1/p' "$BOX/home/A.out" >&3
  grep -q 'espalier: launch: lists searched for the measured stages and the GPUs. memory take .* found in .* ms beside training' "$BOX/home/A.out"
  as_user espalier show job "$A" | tee "$BOX/log/shown"
  grep -q 'Lists=searched ListsBecause=lists searched for the measured stages' "$BOX/log/shown"
  as_user espalier explain "$A" --json > "$BOX/log/explained"
  python3 - "$BOX/log/explained" "$BOX/log/both" << 'P'
import json, sys
told = json.load(open(sys.argv[1]))
before, after = map(float, open(sys.argv[2]).read().split())
decision = next(one for one in told["decisions"] if "search" in one["phases_ms"])
assert decision["outcome"] == "committed" and decision["kind"] == "migrate", decision
own, lists = (one["predicted_step_seconds"] for one in decision["candidates"])
print(f"# predicted {own:.3f} s -> {lists:.3f} s of pipeline; steps took {before:.3f} s -> {after:.3f} s", file=open("/dev/fd/3", "w"))
gain, predicted = before - after, own - lists
assert lists < own and after < before, (own, lists, before, after)
assert 0.5 * predicted < gain < 1.6 * predicted, (gain, predicted)
assert "in_place" in decision["phases_ms"], decision  # the processes that run go on with them
P
  goes_on_well
}
