# Slurm suspends a training (scontrol suspend) for longer than a step and a change of generations may take.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.hang_seconds = 10' -e 'launch.start_seconds = 20' -e 'launch.switch_seconds = 10'
# limit: 900
# each: 400
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  scontrol resume "$A" 2> /dev/null || true
  clean_slate
}

suspend() {
  scontrol suspend "$A"
  wait_for 30 "A is suspended" job_is "$A" SUSPENDED
}
resume() {
  scontrol resume "$A"
  wait_for 30 "A runs again" job_is "$A" RUNNING
}
not_taken_for_hung() { refute grep 'was not done within' "$BOX/home/A.out"; }
no_step_twice() {
  local twice
  twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d)
  [ -z "$twice" ] || { echo "twice: $twice"; return 1; }
}

@test "a training on its own GPUs stands still for 40 s, where a step may take 10 s, and goes on where it was" {
  cast 2:2
  held_at_rest
  generation=$(metric A generation)
  suspend
  sleep 40
  resume
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  [ "$(metric A generation)" = "$generation" ]
  not_taken_for_hung
  refute grep 'training went on with' "$BOX/home/A.out"
  no_step_twice
  goes_on_well
}

# bats test_tags=long:2
@test "while a training is suspended nothing is proposed to it, and GPUs that become idle go to another elastic job" {
  cast 2:8
  wait_for 60 "it is known to the planner" eval 'espalier show job "$A" | grep -q Launcher=connected'
  suspend
  decisions() { espalier show decisions --job "$A" --limit 100 -o | grep -c '^DecisionId=' || true; }
  sleep 3 # what was decided before the planner saw it
  before=$(decisions)
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  sleep 15 # several polls
  [ "$(decisions)" = "$before" ]
  espalier explain "$A" | grep 'Slurm has suspended it'
  rm -f "$BOX"/home/B.*
  B=$(elastic B 2:8 -N1 -n1 -w n2 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 200 "B has been lent GPUs" eval '[ "$(gpus_of B)" -gt 2 ]'
  [ "$(decisions)" = "$before" ]
  as_user scancel "$B"
  wait_for 60 "B has ended" job_over "$B"
  resume
  wait_for 200 "A grows" eval '[ "$(gpus_of A)" -gt 2 ]'
  not_taken_for_hung
  no_step_twice
  goes_on_well
}

# bats test_tags=long:3
@test "the GPUs that a suspended training was lent are free for others; resumed it goes on without them, loses no step, and grows again" {
  cast 2:4
  finish near
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  suspend
  # slurmstepd waits for a minute for the extension's srun, which is suspended as well.
  wait_for 200 "its extension is over" no_extensions
  other=$(plain other -N1 -n1 -w n1 --gres=gpu:2)
  wait_for 60 "another job has its GPUs" job_is "$other" RUNNING
  resume
  wait_for 60 "A runs on 2 GPUs" runs_on A 2
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  not_taken_for_hung
  no_step_twice
  finish other
  espalier release "$A"
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  goes_on_well
}

# bats test_tags=long:2
@test "a training is suspended for 40 s while its next generation starts, which may take 20 s, and has all its GPUs later" {
  cast 2:4
  finish near
  catch_phase starting
  suspend
  sleep 40
  resume
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  not_taken_for_hung
  no_step_twice
  goes_on_well
}
