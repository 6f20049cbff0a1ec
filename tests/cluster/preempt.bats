# Slurm's preemption: the first thing that must not hurt. An extension gets SIGTERM and GraceTime; the job trains on, shrinks in
# time and loses nothing; the preemptor starts long before the grace is over.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'

setup_file() { . "$BOX_HERE/training.bash"; reference 400; cp "$BOX/home/reference.jsonl" "$BOX/share/"; }
setup() { . "$BOX_HERE/training.bash"; cp "$BOX/share/reference.jsonl" "$BOX/home/"; }
teardown() { clean_slate; }

preempts_and_starts() { # after grown_cast
  local urgent
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 25 "the urgent job starts, within the grace of 30 s" job_is "$urgent" RUNNING
  wait_for 10 "A runs on n1's GPUs only" runs_on A 4
  finish urgent
}

@test "with the planner dead, a preempted job shrinks by itself within the grace and loses no step" {
  grown_cast 400
  "$BOX_HERE/planner.sh" kill
  preempts_and_starts
  ended_well 400
}

@test "with the planner alive, a job that needs the GPUs gets them, and the training loses no step" {
  grown_cast 400
  preempts_and_starts
  ended_well 400
}

@test "an extension preempted while the job is still growing ends the grow, not the training" {
  cast 300
  finish far
  catch_phase starting
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 28 "the urgent job starts" job_is "$urgent" RUNNING
  finish urgent
  ended_well 300
}
