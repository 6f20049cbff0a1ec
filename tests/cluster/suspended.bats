# Slurm suspends a training (scontrol suspend) for longer than a step and a change of generations may take. Its extensions are jobs of
# their own, which Slurm leaves running.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.hang_seconds = 10' -e 'launch.start_seconds = 20' -e 'launch.switch_seconds = 10'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  scontrol resume "$A" 2> /dev/null || true
  clean_slate
}

suspend_for() { # SECONDS
  scontrol suspend "$A"
  wait_for 30 "A is suspended" job_is "$A" SUSPENDED
  sleep "$1"
  scontrol resume "$A"
  wait_for 30 "A runs again" job_is "$A" RUNNING
}
lost_nothing() {
  local what
  for what in 'was not done within' 'training went on with' 'did not'; do
    refute grep "$what" "$BOX/home/A.out"
  done
}

@test "a training on its own GPUs and an extension's stands still for 40 s, where a step may take 10 s, and goes on where it was" {
  cast 2:4
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  generation=$(metric A generation)
  suspend_for 40
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  [ "$(metric A generation)" = "$generation" ]
  runs_on A 4
  lost_nothing
  goes_on_well
}

@test "a training is suspended for 40 s while its next generation starts, which may take 20 s, and goes on there" {
  cast 2:4
  finish near
  catch_phase starting
  suspend_for 40
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  lost_nothing
  goes_on_well
}
