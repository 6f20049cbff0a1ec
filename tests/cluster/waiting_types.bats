# A job waits for a type of GPU that extensions hold, while GPUs of another type are idle. Slurm itself preempts nothing here: only espalierd
# can have the extensions leave. n1 has h100, n2 has a100.
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
