# A job tries other plans on the GPUs that it has, and keeps the fastest. What the first plan of a job on four paced devices
# is follows from data sheets; by measurement another one may be faster.
# box: -n 1 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.plan_trials = 3' -e 'planner.log_level = "debug"'
# limit: 900
# each: 400

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

logged() { grep -q -- "$1" "$BOX/log/espalierd.log"; }
trials_of() { grep -c "job $1: migrate: a trial of 20 steps" "$BOX/log/espalierd.log"; }
trials_over() { logged "job $1: [0-9]* plans were measured on its GPUs; it keeps the fastest"; }

@test "a bit-identical job tries other plans, keeps the fastest that was measured, and no loss changes" {
  A=$(elastic A 4:4 -N1 -n1 --gres=gpu:4 -- "${tiny[@]}" --steps 1000000)
  wait_for 300 "its trials are over" trials_over "$A"
  espalier show job "$A" | grep -qE 'PlansMeasured=[2-4] PlanTrials=over'
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q 'a trial of 20 steps: another plan on its GPUs may be faster than the .* per step that are known' "$BOX/log/shown"
  [ "$(trials_of "$A")" -ge 1 ]
  [ "$(trials_of "$A")" -le 3 ]
  sed -n "s/.*job $A: \([0-9]* plans were measured.*\)/# \1/p" "$BOX/log/espalierd.log" >&3
  # The plan that it keeps is, of all that it trained on for 20 steps, the one with the shortest steps. While a generation
  # starts, steps take longer: the median of the last ten counts. Roughly, since two busy cores stand for four devices.
  python3 - "$BOX/home/A.jsonl" <<'P'
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
steps = [s for s in steps if "step" in s and "plan" in s]
by_generation = {}
for before, step in zip(steps, steps[1:]):
    if before["generation"] == step["generation"]:
        by_generation.setdefault(step["generation"], []).append(step["seconds"])
medians = {g: statistics.median(times[-10:]) for g, times in by_generation.items() if len(times) >= 19}
print(medians)
last = max(medians)
assert len(medians) >= 2, medians
assert medians[last] <= 1.3 * min(medians.values()), medians
P
  goes_on_well
}

@test "a held job tries nothing" {
  A=$(elastic A 4:4 -N1 -n1 --gres=gpu:4 -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "A is held" espalier hold "$A"
  wait_for 120 "A has done 80 steps" stepped_past A 80
  [ "$(trials_of "$A")" = 0 ]
  espalier release "$A"
  wait_for 120 "it tries another plan then" eval '[ "$(trials_of "$A")" -ge 1 ]'
  goes_on_well
}
