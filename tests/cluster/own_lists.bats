# A user's own lists of the pipeline's work (--schedule FILE): refused before anything runs, planned with by what they take, and
# left where a plan has another shape. And lists that are searched, but are not better.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

# Of two stages and four micro-batches, one micro-batch at a time: no two stages ever compute at once.
one_at_a_time() {
  printf '%s\n' 0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3 1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3 | as_user tee "$BOX/home/mine.csv" > /dev/null
}
shown() { as_user espalier show job "$A" > "$BOX/log/shown" && grep -q -- "$1" "$BOX/log/shown"; }

@test "lists that deadlock are refused by row and column before anything runs, and the planner never hears of the job" {
  printf '%s\n' 2F0,0F0,0B0,2B0 1F0,3F0,3B0,1B0 | as_user tee "$BOX/home/mine.csv" > /dev/null
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --schedule mine.csv --steps 1000000)
  wait_for 60 "A has ended" job_over "$A"
  cat "$BOX/home/A.out"
  grep -q -- '--schedule mine.csv: row 1, column 1 (2F0): deadlock: it waits for forward of chunk 1 on micro-batch 0, which rank 1 never reaches' \
    "$BOX/home/A.out"
  [ "$(exit_code "$A")" != 0:0 ]
  [ ! -e "$BOX/home/A.jsonl" ]
  refute grep -q 'step 1' "$BOX/home/A.out"
  as_user espalier show jobs | tee "$BOX/log/jobs"
  refute grep -q "JobId=$A .*Phase=running" "$BOX/log/jobs"
  leaves_nothing
}

@test "lists whose chunks contradict the configuration are refused, with what to change" {
  one_at_a_time
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set training.schedule=zb-v --schedule mine.csv --steps 1000000)
  wait_for 60 "A has ended" job_over "$A"
  cat "$BOX/home/A.out"
  grep -q -- '--schedule mine.csv: has 1 chunks on each stage, .* asks for 2 (parallel.chunks, training.schedule); change one' "$BOX/home/A.out"
  [ "$(exit_code "$A")" != 0:0 ]
  [ ! -e "$BOX/home/A.jsonl" ]
  leaves_nothing
}

@test "the planner takes the time of a job's own lists where its plan runs them, and of 1F1B where it has grown past them" {
  local far near
  one_at_a_time
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set parallel.dp=1 --set parallel.micro_batches=4 \
    --set device.gflops=0.2 --schedule mine.csv --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  grep -q -- "espalier: train: --schedule: the file's lists run" "$BOX/home/A.out"
  wait_for 30 "the planner knows that they run" shown 'Lists=own ListsBecause=.*2 stages and 4 micro-batches'
  wait_for 120 "A is measured" eval 'as_user espalier show scale "$A" > "$BOX/log/scale" 2>&1'
  cat "$BOX/log/scale"
  as_user espalier show scale "$A" --json > "$BOX/log/scale.json"
  python3 - "$BOX/log/scale.json" "$BOX/home/A.jsonl" << 'P'
import json, sys
rows = json.load(open(sys.argv[1]))["scale"]["rows"]
steps = [step["seconds"] for step in (json.loads(line) for line in open(sys.argv[2]) if line.endswith("\n")) if step.get("seconds")]
own, measured = rows[0], min(steps[1:]) # a paced step is never shorter, and longer beside what else runs
print(f"# predicted {own['step_seconds']:.3f} s, measured {measured:.3f} s, {own['schedule']}", file=open("/dev/fd/3", "w"))
assert own["gpus"] == 2 and own["schedule"] == "own-lists", own
# 1F1B would take some 0.6 of it.
assert 0.85 < own["step_seconds"] / measured < 1.3, (own, measured)
assert all(row["schedule"] == "1f1b" for row in rows[1:] if row["plan"]), rows
P
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
  grep -- "espalier: train: --schedule: the file's lists are for 4 micro-batches and chunks on the stages 0 1, this plan has 4 micro-batches and chunks on the stages 0 1 2 3: it runs 1f1b until a plan has those" \
    "$BOX/home/A.out"
  wait_for 30 "the planner knows that they do not" shown 'Lists=none ListsBecause=.*2 stages and 4 micro-batches'
  goes_on_well
}

@test "searched lists that save less than two hundredths of a step are not taken, and the log says what they would save" {
  # Two stages and 32 micro-batches: hardly any of a step is idle. Lists are searched once a profile was calm. Where the machine is
  # busy the first one may not be, and with profiles 100 steps apart the next is minutes away.
  A=$(elastic A 2:2 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --set device.gflops=0.8 --set training.schedule=auto \
    --set training.global_batch=32 --set parallel.pp=2 --set parallel.micro_batches=32 --set metrics.progress_every=0 \
    --set profile.every=10 --steps 1000000)
  wait_for 180 "A has searched" grep -q 'lists searched for the measured stages would save' "$BOX/home/A.out"
  grep -o 'espalier: launch: lists searched .*' "$BOX/home/A.out" | sed 's/^/# /' >&3
  grep -qE 'lists searched for the measured stages would save (0|1)\.[0-9]% of a step: [a-z0-9-]+ stays' "$BOX/home/A.out"
  wait_for 60 "A does 30 steps more" stepped_past A $(($(step_of A) + 30))
  refute grep -q 'searched lists' "$BOX/home/A.jsonl"
  as_user espalier show job "$A" | tee "$BOX/log/shown"
  refute grep -q 'Lists=' "$BOX/log/shown"
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  as_user scancel "$A"
  leaves_nothing
}
