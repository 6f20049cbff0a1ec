# Hand-offs by checkpoint, the method with an order of its own; the others are those of grow.bats and preempt.bats.
# At a least gain of 1.2 the job is not given another plan on its first two GPUs, before it grows.
# box: -n 2 -e 'planner.least_gain = 1.2' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() {
  . "$BOX_HERE/training.bash"
  kept=$BOX/home/kept
  tiny+=(--set handoff.method=checkpoint --set "checkpoint.directory=$kept" --set checkpoint.every=0)
}
teardown() {
  chmod 755 "$kept" 2> /dev/null || true
  clean_slate
}

@test "by checkpoint a job grows and gives back: one generation after the other, each step once" {
  grown_cast
  reached restarting
  refute reached switching
  rm -f "$BOX/home/far.finish"
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  wait_for 60 "the plain job has its GPUs back" job_is "$far" RUNNING
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  [ "$(ls "$kept" | wc -l)" -ge 1 ]
  goes_on_well
}

@test "an extension that is lost while the next generation starts on it: the job goes on at once with what it had" {
  cast
  finish far
  catch_phase restarting
  wait_for 30 "generation 1 starts" has_workers 1
  kill -KILL $(pgrep -u boxuser -x espalier-keeper)
  wait_for 30 "the job has gone on" grep -q 'extension [0-9]* on n2 is gone.*training went on' "$BOX/home/A.out"
  goes_on_well
}

@test "a generation that cannot save its state trains on" {
  cast 2:4
  as_user mkdir "$kept"
  chmod 555 "$kept"
  finish near
  wait_for 60 "the growth is given up" grep -q 'given up: the checkpoint of step [0-9]* could not be written' "$BOX/home/A.out"
  runs_on A 2
  reached saving
  refute reached restarting
  goes_on_well
}
