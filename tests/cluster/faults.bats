# Faults: each at the moment it hurts most. No leaked extension, no hang, and the losses unbroken where the job survives.
# At a least gain of 1.2 a job is not given another plan on the GPUs that it has: the phases that a test waits for are a growth's.
# box: -n 2 -e 'planner.least_gain = 1.2' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 60'
# limit: 2400
# each: 300
# beside
# early

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

growing_until() { # PHASE: a grow is under way and was just seen in that phase
  cast
  finish near
  finish far
  catch_phase "$1"
}
all_gone_within() { # SECONDS: A, its extensions and every process and object
  finish near
  finish far
  wait_for "$1" "A and its extensions are gone" eval 'job_over "$A" && no_extensions'
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h)" ]'
  assert_nothing_left
}

@test "a worker of the new generation killed before the commit: the grow is given up, the training goes on" {
  growing_until starting
  found() { victim=$(workers 1 | tail -n 1); [ -n "$victim" ]; }
  wait_for 20 "workers of generation 1 are there" found
  kill -KILL "$victim"
  wait_for 30 "the grow is given up" grep -Eq 'given up|training went on' "$BOX/home/A.out"
  goes_on_well
}

@test "a rank of the new generation that ends before it says hello: the grow is given up at once, the training goes on" {
  as_user mkdir "$BOX/home/bin"
  as_user tee "$BOX/home/bin/espalier-train" > /dev/null <<S
#!/bin/sh
[ "\$ESPALIER_GENERATION.\$OMPI_COMM_WORLD_RANK" != 1.1 ] || exit 3
exec $BOX/bin/espalier-train "\$@"
S
  as_user chmod 755 "$BOX/home/bin/espalier-train"
  echo 'launch.spares = false' >> /etc/espalier/espalier.toml # a spare began before it had a rank
  PATH=$BOX/home/bin:$PATH growing_until starting
  sed -i '/launch.spares/d' /etc/espalier/espalier.toml
  wait_for 15 "the grow is given up" grep -q 'given up: rank 1 on n1 ended with code 3 before it said hello' "$BOX/home/A.out"
  goes_on_well
}

@test "a rank server killed before its ranks of the new generation say hello: the grow is given up at once, the training goes on" {
  as_user mkdir "$BOX/home/bin"
  as_user tee "$BOX/home/bin/espalier-train" > /dev/null <<S
#!/bin/sh
[ "\$ESPALIER_GENERATION" != 1 ] || exec sleep 60
exec $BOX/bin/espalier-train "\$@"
S
  as_user chmod 755 "$BOX/home/bin/espalier-train"
  PATH=$BOX/home/bin:$PATH cast
  finish far
  catch_phase starting
  found() { victim=$(processes espalier-ranks "SLURM_JOB_ID=$(extensions_of "$A" | tail -n 1)") && pgrep -P "$victim" > /dev/null; }
  wait_for 20 "the rank server has started its ranks" found
  kill -KILL "$victim"
  wait_for 10 "the grow is given up" grep -q 'given up: the rank server on n[0-9] was lost' "$BOX/home/A.out"
  goes_on_well
}

@test "the launcher killed: everything it owned is released within 10 s" {
  grown_cast
  kill -KILL "$(launcher_pid)"
  all_gone_within 10
}

@test "the launcher killed during a grow: everything it owned is released within 10 s" {
  growing_until starting
  kill -KILL "$(launcher_pid)"
  all_gone_within 10
}

planner_dies_in() {
  if [ "$1" = running ]; then cast; else growing_until "$1"; fi
  "$BOX_HERE/planner.sh" kill
  sleep 1
  "$BOX_HERE/planner.sh" start
  if [ "$1" = running ]; then finish near; finish far; fi
  wait_for 60 "A runs on more GPUs" eval '[ "$(gpus_of A)" -gt 2 ]'
  goes_on_well
}
@test "espalierd killed while the launcher is running" { planner_dies_in running; }
# bats test_tags=long:1
@test "espalierd killed while the launcher is acquiring" { planner_dies_in acquiring; }
# bats test_tags=long:2
@test "espalierd killed while the launcher is starting" { planner_dies_in starting; }
# bats test_tags=long:3
@test "espalierd killed while the launcher is ready" { planner_dies_in ready; }
# bats test_tags=long:4
@test "espalierd killed while the launcher is switching" { planner_dies_in switching; }
@test "espalierd killed while the launcher has committed" { planner_dies_in committed; }

cancel_anchor_in() {
  if [ "$1" = running ]; then grown_cast; else growing_until "$1"; fi
  as_user scancel "$A"
  all_gone_within 30
}
@test "scancel of the anchor while running: all is gone" { cancel_anchor_in running; }
# bats test_tags=long:1
@test "scancel of the anchor while acquiring: all is gone" { cancel_anchor_in acquiring; }
# bats test_tags=long:2
@test "scancel of the anchor while starting: all is gone" { cancel_anchor_in starting; }
# bats test_tags=long:5
@test "scancel of the anchor while ready: all is gone" { cancel_anchor_in ready; }
# bats test_tags=long:5
@test "scancel of the anchor while switching: all is gone" { cancel_anchor_in switching; }
# bats test_tags=long:6
@test "scancel of the anchor when committed: all is gone" { cancel_anchor_in committed; }

@test "scancel of an extension that a grow is starting on: the grow is given up, the training goes on" {
  growing_until starting
  as_user scancel "$(extensions_of "$A" | tail -n 1)"
  goes_on_well
}

# bats test_tags=long:3
@test "scancel of a pending extension: the grow is given up, the training goes on" {
  growing_until acquiring
  for extension in $(extensions_of "$A"); do as_user scancel "$extension"; done
  goes_on_well
}

@test "scancel of an extension of the running generation: the job leaves it in its time, or goes on after the loss" {
  grown_cast
  # Each daemon holds the job's directory on its node, which no keeper then removes.
  daemons=$(pgrep -u boxuser -x espalier-ranks)
  for daemon in $daemons; do ls -l "/proc/$daemon/fd" | grep -q '/espalier-.*/lock$'; done
  wait_for 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  as_user scancel "$(extensions_of "$A" | tail -n 1)"
  wait_for 60 "A runs without it" eval '[ "$(metric A generation)" -ge 2 ]'
  goes_on_well
}

# bats test_tags=long:4
@test "slurmd of an extension's node killed: the training goes on" {
  grown_cast
  "$BOX_HERE/node.sh" kill n2
  wait_for 60 "A does 40 more steps" stepped_past A $(($(step_of A) + 40))
  "$BOX_HERE/node.sh" start n2
  goes_on_well
}

@test "a program of its own kind that is cancelled has its time to save its work" {
  as_user tee "$BOX/home/own.sh" > /dev/null <<'S'
#!/bin/bash
srun --elastic=2:4 bash -c 'trap "sleep 4; echo saved; exit 0" TERM; echo trains; while :; do sleep 0.1; done'
S
  own=$(as_user sbatch --parsable -N1 -n1 --gres=gpu:2 -o "$BOX/home/own.out" "$BOX/home/own.sh")
  wait_for 60 "its ranks run" eval '[ "$(grep -c trains "$BOX/home/own.out")" = 2 ]'
  as_user scancel "$own"
  wait_for 60 "it is over" job_over "$own"
  cat "$BOX/home/own.out"
  [ "$(grep -c saved "$BOX/home/own.out")" = 2 ]
  assert_nothing_left
}

# Last: Slurm gives the next job no GPUs while nodes have not registered again.
@test "slurmctld restarted during a grow: no extension is lost or doubled, the training goes on" {
  growing_until acquiring
  controller=$(cat "$BOX/pid/slurmctld")
  kill -TERM "$controller" # as systemd restarts it; it saves its state
  wait_for 60 "slurmctld has ended" eval '[ ! -d /proc/$controller ]'
  slurmctld 3>&-
  wait_for 20 "slurmctld answers" scontrol ping
  goes_on_well
}
