# Sourced by tests, inside a box of two nodes: the usual cast, the launcher's phases, and what a test demands of a training.
. "$BOX_HERE/jobs.bash"

# The training of all these tests: small, and with a constant learning rate, so that the first steps of a long run are those of
# a short one. Its devices are paced: a step takes 0.3 s on two GPUs and 0.15 s on eight, and the processor is idle for most of
# it. At full speed every training in a test takes both cores from the processes that the test waits for.
tiny=(--set model.hidden=32 --set model.sequence=32 --set training.minimum_learning_rate=2e-3 --set device.gflops=0.4 --data "$BOX/share/text")

# The same training for twenty seconds at full speed, without Slurm and elasticity. Kept for other files and boxes of the same build.
reference() {
  local kept trainer=$BOX/bin/espalier-train
  kept=$BUILD/test/reference-$(cat "$trainer" "$BOX/share/examples/gpt-tiny.toml" "$BOX/share/text" "$BASH_SOURCE" | sha256sum | cut -c1-16).jsonl
  if [ ! -s "$kept" ]; then
    as_user timeout 20 mpirun --oversubscribe --bind-to none -np 2 espalier-train "$BOX/share/examples/gpt-tiny.toml" \
      "${tiny[@]}" --set device.gflops=0 --steps 1000000 --metrics "$BOX/home/reference.jsonl" > "$BOX/log/reference.log" 2>&1 || true
    rm -rf /tmp/ompi.ctl.* /dev/shm/vader_segment.ctl.* # of an mpirun that was ended
    mkdir -p "$BUILD/test"
    cp "$BOX/home/reference.jsonl" "$kept.$$" && mv "$kept.$$" "$kept"
  fi
  cp "$kept" "$BOX/share/reference.jsonl"
}
same_losses() { # NAME [STEPS]
  python3 "$BOX_HERE/losses.py" "$BOX/home/$1.jsonl" "$BOX/share/reference.jsonl" ${2:+"$2"}
}

# A trains on two GPUs of n1; filler jobs hold n1's other two (near) and all of n2 (far). Sets A, near, far.
cast() { # [RANGE [STEPS]]
  rm -f "$BOX"/home/{A,near,far}.*
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A "${1:-2:8}" -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps "${2:-1000000}")
  wait_for 120 "A trains" stepped_past A 10
}
grown_cast() { # [RANGE [STEPS]]: and A has grown to all eight GPUs
  cast "$@"
  wait_for 20 "A is held" espalier hold "$A" # until all six are free: what it takes of fewer depends on who is faster
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  espalier release "$A"
  grows_to_eight
}
# Six GPUs promise nearly what eight do, and how fast the first few steps were decides: then once more. What it took of a
# node it cannot add to. TENTHS: for how long it is content with fewer, which is longer where its GPUs come one after the other.
grows_to_eight() { # [TENTHS]
  local until=$((SECONDS + 200)) content=0 generation
  until runs_on A 8; do
    [ $SECONDS -lt $until ] || { echo "after 200 s still not: A runs on 8 GPUs" >&2; return 1; }
    generation=$(metric A generation)
    if phase_is running && [ "${generation:-0}" -gt 0 ]; then content=$((content + 1)); else content=0; fi
    if [ $content -ge "${1:-40}" ]; then
      content=0
      # Refused where it has begun to grow after all.
      if espalier hold "$A" && espalier reclaim "$A"; then
        wait_for 60 "A has given back what it took" runs_on A 2
        wait_for 60 "it is at rest" phase_is running
      fi
      espalier release "$A"
    fi
    sleep 0.1
  done
}

# The launcher's phase, from its own log (planner.log_level = "debug").
phase_is() { [ "$(sed -n 's/.*--> \([a-z]*\)$/\1/p' "$BOX/home/A.out" | tail -n 1)" = "$1" ]; }
reached() { grep -q -- "--> $1\$" "$BOX/home/A.out"; }
# Returns as soon as a phase was entered; polls fast, as some last for milliseconds.
catch_phase() { # PHASE [SECONDS]
  local tries
  for ((tries = 0; tries < ${2:-150} * 50; tries++)); do reached "$1" && return 0; sleep 0.02; done
  echo "A never was in phase $1" >&2
  return 1
}
# A is held, and what the planner had decided before is over: its generation, its plan and its processes stay. A proposal that was
# sent before takes less than a step to arrive, and the metrics tell of a generation only when it has done a step.
held_at_rest() {
  wait_for 60 "A is held" espalier hold "$A"
  wait_for 200 "no change of A is under way" two_steps_at_rest
}
two_steps_at_rest() {
  local changes
  phase_is running || return
  changes=$(grep -c -- '--> ' "$BOX/home/A.out")
  wait_for 30 "A does 2 more steps" stepped_past A $(($(step_of A) + 2)) || return
  phase_is running && [ "$(grep -c -- '--> ' "$BOX/home/A.out")" = "$changes" ]
}
# asked_to_move OPTION...: what `espalier migrate` says of A, in $output and $status, when no other change is under way any more.
asked_to_move() { wait_for 100 "A is not being reconfigured" answered_of_move "$@"; }
answered_of_move() { run espalier migrate "$A" "$@"; [[ $output != *'is being reconfigured'* ]]; }
# Pids of boxuser's processes called $1 with $2 in their environment.
processes() {
  local pid
  for pid in $(pgrep -u boxuser -x "$1"); do
    ! tr '\0' '\n' < "/proc/$pid/environ" 2>/dev/null | grep -qx "$2" || echo "$pid"
  done
}
workers() { processes espalier-train "ESPALIER_GENERATION=$1"; } # of a generation
has_workers() { [ -n "$(workers "$1")" ]; }
# The plugin tells a launcher its role in a variable or, from Slurm 23.11 on, in its first argument.
launcher_pid() {
  local pid
  { processes espalier-launch ESPALIER_TASK=run
    for pid in $(pgrep -u boxuser -x espalier-launch); do
      [ "$(tr '\0' '\n' < "/proc/$pid/cmdline" 2>/dev/null | sed -n 2p)" != run ] || echo "$pid"
    done
  } | head -n 1
}

# A trains on, with the reference's losses; it is then cancelled, and nothing is left.
goes_on_well() { # [SECONDS until nothing is left]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  same_losses A
  as_user scancel "$A"
  leaves_nothing "$@"
}
# A does all its steps with the reference's losses and leaves nothing.
ends_well() { # STEPS
  wait_for 300 "A ends" job_over "$A"
  same_losses A "$1"
  leaves_nothing
}
leaves_nothing() { # [SECONDS]; the fillers are no longer needed either
  finish near
  finish far
  wait_for "${1:-20}" "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  assert_nothing_left
}

# For teardown: a node that was cut off or lost its slurmd.
bring_back() { # NODE
  ip link set "v${1#n}" up
  kill -0 "$(cat "$BOX/pid/$1")" 2>/dev/null || "$BOX_HERE/node.sh" start "$1"
  scontrol update nodename="$1" state=resume 2>/dev/null || true
}
# For teardown: what a failed test was about, then a clean slate for the next one.
clean_slate() {
  [ -n "${BATS_TEST_COMPLETED:-}" ] || {
    squeue
    tail -n 30 "$BOX"/home/*.out
    tail -n 15 "$BOX/log/espalierd.log"
  }
  scancel -u boxuser 2>/dev/null || true
  scancel -u boxuser -s KILL 2>/dev/null || true
  pkill -KILL -u boxuser || true
  wait_for 45 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  "$BOX/bin/espalier" ping > /dev/null 2>&1 || "$BOX_HERE/planner.sh" start
  rm -rf "$BOX"/home/* /tmp/espalier* /tmp/ompi.* /dev/shm/*
}
