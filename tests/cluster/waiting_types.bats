# Jobs wait for GPUs that extensions hold: for a type of GPU, while GPUs of another type are idle; and as the tasks of an array. Slurm itself
# preempts nothing here: only espalierd can have the extensions leave. n1 has h100, n2 has a100.
# box: -n 2 -y a100 -c PreemptType=preempt/none -c PreemptMode=OFF -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 600
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

@test "extensions leave the type of GPU that a job waits for, however many of another type are idle" {
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A 2:4 -N1 -n1 -w n1 --gres=gpu:h100:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 30 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  finish far
  wait_for 60 "n2 is idle" eval '[ -z "$(squeue -h -w n2)" ]'
  typed=$(plain typed -N1 -n1 --gres=gpu:h100:2)
  wait_for 90 "the job that asks for h100 runs" job_is "$typed" RUNNING
  [ "$(squeue -h -o %N -j "$typed")" = n1 ]
  finish typed
  goes_on_well 40
}

# For each decision by which A gave GPUs back to this job, how many extensions.
given_back() { # JOB
  espalier show decisions --job "$A" --json | python3 -c '
import json, sys
for one in json.load(sys.stdin)["decisions"]:
    if one["outcome"] == "committed" and one["reason"].startswith("job " + sys.argv[1] + " waits"): print(len(one["release"]))' "$1"
}

@test "the waiting tasks of an array get their GPUs in one decision" {
  local array
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
  plain next -N1 -n1 -w n1 --gres=gpu:1
  plain rest -N1 -n1 -w n1 --gres=gpu:1
  A=$(elastic A 1:3 -N1 -n1 -w n1 --gres=gpu:h100:1 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  finish near
  wait_for 120 "A runs on 2 GPUs" runs_on A 2
  finish next
  wait_for 120 "A runs on 3 GPUs" runs_on A 3
  [ "$(extensions_of "$A" | wc -l)" = 2 ]
  wait_for 30 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  array=$(plain array --array=0-1 -N1 -n1 --gres=gpu:h100:1)
  wait_for 90 "both tasks run" eval '[ "$(squeue -h -r -t R -o %i -n array | wc -l)" = 2 ]'
  wait_for 20 "A is told to have given back" eval '[ -n "$(given_back '"$array"')" ]'
  [ "$(given_back "$array")" = 2 ] # both extensions, at once
  finish array
  finish rest
  goes_on_well 40
}
