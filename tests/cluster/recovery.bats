# Losses while a job trains: whatever is killed, cut off or stopped, the job goes on with what is left, and its losses are those
# of an undisturbed run.
# At a least gain of 1.2 a job is not given another plan on the GPUs that it has: a test knows which generation it kills.
# box: -n 2 -e 'planner.least_gain = 1.2' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 60'
# limit: 3000
# each: 400
# beside
# early

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  ip link set v2 up
  clean_slate
}

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
report() { echo "# $*" >&3; }
generation_of() { local generation; generation=$(metric A generation); echo "${generation:-0}"; }
in_generation_after() { [ "$(generation_of)" -gt "$1" ]; }

# survives SECONDS COMMAND...: after what COMMAND does, A trains in another generation within so many seconds.
survives() {
  local limit=$1 before start
  shift
  before=$(generation_of)
  start=$(now_ms)
  "$@"
  wait_for "$limit" "A trains in a generation after $before" in_generation_after "$before"
  report "$BATS_TEST_DESCRIPTION: $(($(now_ms) - start)) ms to the next step"
  wait_for 60 "it is told" said 'training went on'
  grep 'training went on' "$BOX/home/A.out" | tail -n 1 | sed 's/^/# /' >&3
}
said() { grep -q "$1" "$BOX/home/A.out"; }
told_once() { # WHAT: and that only
  [ "$(grep -c 'training went on' "$BOX/home/A.out")" -eq 1 ]
  said "$1"
  wait_for 60 "it is recorded" eval 'as_user espalier explain "$A" > "$BOX/log/explain" && grep -q Kind=recover "$BOX/log/explain"'
  grep -q "$1" "$BOX/log/explain"
}
worker() { # RANK, of the generation that runs
  local pid
  for pid in $(workers "$(generation_of)"); do
    ! tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" || echo "$pid"
  done
}
rank_on() { metric A plan | sed 's/.*| //' | tr ' ' '\n' | awk -v gpu="$1" '$0 == gpu { print NR - 1 }'; } # NODE/INDEX
kill_worker() { kill -KILL "$(worker "${1:-5}")"; }
ten_steps() { wait_for 60 "A does 10 steps" stepped_past A $(($(step_of A) + 10)); }

@test "one worker of eight killed" {
  grown_cast
  ten_steps
  survives 120 kill_worker
  told_once 'rank 5 on n[12] was lost after step\|, and [0-9]* more after step'
  runs_on A 8
  goes_on_well
}

# bats test_tags=long:1
@test "five losses, each of another rank, rank 0 among them" {
  grown_cast
  for rank in 7 0 3 1 4; do
    ten_steps
    survives 120 kill_worker "$rank"
  done
  runs_on A 8
  goes_on_well
}

# bats test_tags=long:2
@test "a worker killed while Slurm takes back an extension, where it starts no step any more" {
  grown_cast
  held_at_rest
  extension=$(squeue -h -p elastic -w n1 -o %i | head -n 1)
  victim=$(worker 0) # looked for before: under load that takes longer than the change that follows
  take_back_and_kill() {
    as_user scancel "$extension"
    kill -KILL "$victim" || echo "# the launcher has ended it already" >&3
  }
  survives 120 take_back_and_kill
  said 'training went on with the state it left behind'
  refute said 'next_failed'
  goes_on_well
}

# bats test_tags=long:2
@test "a worker killed while slurmctld is away: what extensions hold is worth a wait" {
  grown_cast
  # It saves its jobs a few seconds after something has changed. Those that it does not know when it comes back are ended by
  # the nodes, and to those that it knows as waiting it gives no steps.
  touch "$BOX/home/now"
  local change
  change=$(as_user sbatch --parsable -H -o /dev/null --wrap true)
  wait_for 30 "slurmctld has saved the extensions" test "$BOX/state/job_state" -nt "$BOX/home/now"
  kill_both() {
    kill -KILL "$(cat "$BOX/pid/slurmctld")"
    kill_worker
    wait_for 60 "it is told" said 'slurmctld is away (.*): training goes on when it is back'
    slurmctld 3>&-
  }
  survives 120 kill_both
  told_once 'training went on with the state it left behind'
  [ "$(gpus_of A)" = 8 ] # though Slurm refuses steps while it settles
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  same_losses A
  as_user scancel "$A"
  as_user scancel "$change" || true # which slurmctld may not have saved
  # A step that ended meanwhile is told to slurmctld again only once a minute; until then its job completes.
  wait_for 20 "nothing of A runs" eval '! pgrep -u boxuser > /dev/null'
  scontrol update nodename='n[1-2]' state=down reason=completing
  scontrol update nodename='n[1-2]' state=resume || true # refused where slurmd has registered meanwhile: then they are up
  leaves_nothing
}

# What Slurm does when a node goes down while job and step were submitted with --no-kill: it takes the node from them.
@test "a node of the anchor's own goes down: the job goes on without it" {
  A=$(SRUN_OPTIONS=--no-kill elastic A :4 --no-kill -N2 --ntasks-per-node=1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  held_at_rest
  goes_down() {
    ip link set v2 down
    sleep 8
    scontrol update nodename=n2 state=down reason=test
  }
  survives 120 goes_down
  [[ $(metric A gpus) = 2 ]]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  [ "$(squeue -h -j "$A" -o '%T %N')" = "RUNNING n1" ]
  ip link set v2 up
  scontrol update nodename=n2 state=resume
  wait_for 30 "n2 is back" eval '[ "$(sinfo -h -n n2 -p main -o %t)" = idle ]'
  goes_on_well 100
}

# bats test_tags=long:3
@test "a node that Slurm has taken from the anchor is left out before its keeper has been silent for long" {
  echo 'launch.heartbeat_seconds = 5' >> /etc/espalier/espalier.toml
  # What is submitted with sbatch --elastic needs no --no-kill.
  as_user tee A.sh > /dev/null << S
#!/bin/bash
srun espalier-train $BOX/share/examples/gpt-tiny.toml ${tiny[*]} --steps 1000000 --metrics A.jsonl
S
  A=$(as_user sbatch --parsable --elastic=:4 -o A.out -N2 --ntasks-per-node=1 --gres=gpu:2 A.sh)
  wait_for 120 "A trains" stepped_past A 10
  sed -i '/launch.heartbeat_seconds/d' /etc/espalier/espalier.toml # the launcher has read it
  goes_down() {
    ip link set v2 down
    scontrol update nodename=n2 state=down reason=test
  }
  survives 120 goes_down
  [[ $(metric A gpus) = 2 ]]
  refute said 'recovering --next_failed' # not tried with n2 first
  ip link set v2 up
  scontrol update nodename=n2 state=resume
  wait_for 30 "n2 is back" eval '[ "$(sinfo -h -n n2 -p main -o %t)" = idle ]'
  goes_on_well 100
}

# bats test_tags=long:4
@test "a node of the anchor's own that was cut off for a while is the job's again" {
  A=$(elastic A :4 -N2 --ntasks-per-node=1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 120 "A trains" stepped_past A 10
  cut_off() {
    ip link set v2 down
    wait_for 60 "A trains on n1" runs_on A 2
    ip link set v2 up
  }
  survives 120 cut_off
  wait_for 60 "A runs on both nodes" runs_on A 4
  goes_on_well
}

# bats test_tags=long:1
@test "a GPU where two workers were killed is left out" {
  local gpu
  grown_cast
  held_at_rest
  gpu=$(metric A plan | sed 's/.*| //' | tr ' ' '\n' | sed -n 7p)
  for _ in 1 2; do
    ten_steps
    survives 120 kill_worker "$(rank_on "$gpu")"
  done
  [ -z "$(rank_on "$gpu")" ]
  goes_on_well
}

# bats test_tags=long:5
@test "a job whose own GPUs are all left out gives back what it was lent all the same" {
  grown_cast
  held_at_rest
  own=$(head -n 1 "$BOX/home/A.jsonl" | sed 's/.*layers | \([^"]*\)".*/\1/')
  for gpu in $own $own; do
    ten_steps
    [ -n "$(rank_on "$gpu")" ] || continue # the plan after the loss before did without it, too
    own_worker() { kill -KILL "$(worker "$(rank_on "$gpu")")"; }
    survives 120 own_worker
  done
  for gpu in $own; do [ -z "$(rank_on "$gpu")" ]; done
  # What it has on that node besides is taken: it goes on with its own there, since no plan does without that node.
  as_user scancel "$(squeue -h -p elastic -w n1 -o %i | head -n 1)"
  wait_for 60 "the extension has ended" eval '[ -z "$(squeue -h -p elastic -w n1)" ]'
  ten_steps
  refute said 'no plan fits'
  # Refused while what Slurm took back still moves the job.
  wait_for 60 "what it was lent is asked back" as_user espalier reclaim "$A"
  # Of its own GPUs those where nobody was killed twice, if there are any: the plan may have done without one of them anyway.
  wait_for 60 "A runs on its own GPUs" eval '[ "$(gpus_of A)" -le 2 ]'
  wait_for 20 "its extensions have ended" no_extensions
  goes_on_well
}

# bats test_tags=long:4
@test "a worker of a job that never grew killed" {
  cast
  survives 120 kill_worker 1
  told_once 'rank 1 on n1 was lost after step'
  goes_on_well
}

# bats test_tags=long:6
@test "all workers of a generation killed at once" {
  grown_cast
  ten_steps
  kill_all() { workers "$(generation_of)" | xargs kill -KILL; }
  survives 120 kill_all
  goes_on_well
}

# bats test_tags=long:5
@test "the rank server on the launcher's node, and that of an extension, killed" {
  grown_cast
  kill_server() { kill -KILL "$(processes espalier-ranks "SLURM_JOB_ID=$1")"; }
  for job in "$A" "$A" "$(far_extension)" "$(far_extension)"; do
    ten_steps
    survives 120 kill_server "$job"
  done
  runs_on A 8 # its ranks have died with it, which says nothing of their GPUs
  said 'the rank server on n[12] was lost\|the rank server on n[12] ended with code 137\|rank [0-9]* on n[12] was lost'
  goes_on_well
}

# bats test_tags=long:3
@test "the rank server of an extension, and that on the launcher's node, stopped: another takes its place, and no GPU is left out" {
  grown_cast
  stop_server() { kill -STOP "$(processes espalier-ranks "SLURM_JOB_ID=$1")"; }
  for job in "$(far_extension)" "$A"; do
    ten_steps
    stopped=$(processes espalier-ranks "SLURM_JOB_ID=$job")
    survives 120 stop_server "$job"
    [ ! -e "/proc/$stopped" ]
  done
  runs_on A 8
  said 'the rank server on n2 has been silent for 10 heartbeats'
  said 'the rank server on n1 has been silent for 10 heartbeats'
  refute said 'recovering --next_failed'
  goes_on_well
}

far_extension() { extensions_of "$A" | while read -r id; do [ "$(squeue -h -j "$id" -o %N)" != n2 ] || echo "$id"; done; }

# bats test_tags=long:1
@test "an extension killed" {
  grown_cast
  held_at_rest
  # Its batch script may be told before its steps end: then it is a shrink in time, else a loss.
  before=$(generation_of)
  as_user scancel -s KILL --full "$(far_extension)"
  wait_for 120 "A trains in another generation" in_generation_after "$before"
  [ "$(gpus_of A)" -le 4 ]
  as_user espalier release "$A"
  wait_for 200 "idle GPUs have taken the place of the lost ones" runs_on A 8
  goes_on_well
}

@test "the keeper of an extension killed" {
  grown_cast
  held_at_rest
  kill_keeper() { kill -KILL "$(processes espalier-keeper "SLURM_JOB_ID=$(far_extension)")"; }
  survives 120 kill_keeper
  told_once 'was lost\|is gone'
  goes_on_well
}

# bats test_tags=long:3
@test "the keeper of an extension on the job's own node killed: copies are kept beside it" {
  tiny+=(--set recovery.snapshot_steps=5 --set training.zero1=true) # whose parts have no replicas
  cast 2:4
  finish near
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  held_at_rest
  ten_steps
  kill_keeper() { kill -KILL "$(processes espalier-keeper "SLURM_JOB_ID=$(extensions_of "$A")")"; }
  survives 120 kill_keeper
  said 'training went on with snapshots'
  goes_on_well
}

# What workers tell each other is lost without a word (packets go to a neighbour that is nowhere). What workers and rank
# servers tell the launcher is not.
silence() { # add|del
  if [ "$1" = add ]; then
    ports=$(tr '\0' '\n' < "/proc/$(workers "$(generation_of)" | head -n 1)/environ" | sed -n 's/^ESPALIER_LAUNCHER=.*://p')
    [ -n "$ports" ]
  fi
  local port node peer
  for port in $ports; do
    ip -n n2 rule "$1" pref 10 to 10.77.0.2 dport "$port" lookup main
    ip -n n1 rule "$1" pref 10 to 10.77.0.3 sport "$port" lookup main
  done
  for node in n1 n2; do
    peer=10.77.0.3
    [ "$node" = n1 ] || peer=10.77.0.2
    [ "$1" = del ] || ip -n "$node" neigh replace 10.77.9.9 lladdr 02:00:00:00:09:09 nud permanent dev eth0
    ip -n "$node" route "${1/add/replace}" "$peer" via 10.77.9.9 dev eth0 table 77
    ip -n "$node" rule "$1" pref 20 to "$peer" lookup 77
  done
}

may_hang() { # A is grown, and a step of it may take 6 s
  echo 'launch.hang_seconds = 6' >> /etc/espalier/espalier.toml
  grown_cast
  held_at_rest
  sed -i '/launch.hang_seconds/d' /etc/espalier/espalier.toml # the launcher has read it
}
hang() { # [COMMAND...]: what is done meanwhile
  silence add
  "${@:-true}"
  wait_for 30 "the step is given up" reached recovering
  silence del
}

# bats test_tags=long:4
@test "a step that hangs while all workers send heartbeats is given up after hang_seconds" {
  may_hang
  survives 120 hang
  told_once 'step [0-9]* was not done within [0-9]* s'
  goes_on_well
}

# bats test_tags=long:4
@test "a step that hangs while a change waits for its end is given up no later" {
  may_hang
  # The smaller generation starts without the old one, which then is given a minute to reach a boundary.
  give_back() { wait_for 20 "the job is asked to give back" as_user espalier reclaim "$A"; }
  survives 120 hang give_back
  reached ready
  told_once 'step [0-9]* was not done within [0-9]* s'
  goes_on_well
}

# bats test_tags=long:2
@test "an extension's node cut off from the network" {
  grown_cast
  survives 120 ip link set v2 down
  told_once 'silent for 10 heartbeats\|was lost\|is gone\|timed out'
  [ "$(gpus_of A)" -le 4 ]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  same_losses A
  ip link set v2 up
  as_user scancel "$A"
  finish near
  finish far
  wait_for 90 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  assert_nothing_left 10
  wait_for 30 "n2 is back" eval '[ "$(sinfo -h -n n2 -t idle -p main -o %D)" = 1 ]'
}

# bats test_tags=long:6
@test "a worker stopped" {
  grown_cast
  stop_worker() { kill -STOP "$(worker 5)"; }
  survives 120 stop_worker
  told_once 'silent for 10 heartbeats'
  goes_on_well
}

lost_in() { # PHASE: of the running generation a worker is killed there
  local victim
  cast
  victim=$(workers 0 | tail -n 1) # now: some phases last for milliseconds
  finish near
  finish far
  catch_phase "$1" 150
  kill -KILL "$victim" || true # it may just have left
  wait_for 120 "A trains in another generation" in_generation_after 0
  goes_on_well
}
# bats test_tags=long:3
@test "a worker of the running generation killed while a grow is acquiring" { lost_in acquiring; }
# bats test_tags=long:5
@test "a worker of the running generation killed while a grow is starting" { lost_in starting; }
# bats test_tags=long:3
@test "a worker of the running generation killed while a grow is ready" { lost_in ready; }
@test "a worker of the running generation killed while switching" { lost_in switching; }

# bats test_tags=long:6
@test "a worker that gets no memory while the next generation starts: a loss, not the end of the job" {
  local victim
  export MALLOC_MMAP_THRESHOLD_=16384 # every step asks the system for memory, as on a GPU whose cache is short of some
  cast
  victim=$(workers 0 | tail -n 1)
  finish near
  finish far
  catch_phase starting 150
  as_user prlimit --pid "$victim" --as=1:
  wait_for 120 "A trains in another generation" in_generation_after 0
  report "$(grep 'training went on' "$BOX/home/A.out")"
  # Whoever needs memory first: torch, MPI, or a thread that ends the process.
  told_once 'memory\|MPI_ERR_INTERN\|rank 1 on n1 was lost'
  goes_on_well
}

@test "a worker of the new generation killed right after the commit" {
  cast
  finish near
  finish far
  catch_phase committed 150
  workers 1 | tail -n 1 | xargs -r kill -KILL || true
  wait_for 120 "A trains in another generation" in_generation_after 0
  goes_on_well
}

# bats test_tags=long:6
@test "extensions gone between the commit and the first step: the state of the generation before is there" {
  tiny+=(--set device.gflops=0.1 --set parallel.dp=1) # slow steps; each rank alone has its layers
  cast
  as_user espalier hold "$A"
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  as_user espalier release "$A"
  # Not the first commit: once A is measured, it may have got a faster plan on the GPUs it has.
  for ((tries = 0; tries < 7500; tries++)); do ! said '^espalier: launch: grow committed' || break; sleep 0.02; done
  grown_to=$(sed -n 's/^espalier: launch: grow committed .*: generation \([0-9]*\),.*/\1/p' "$BOX/home/A.out" | tail -n 1)
  pgrep -u boxuser -x espalier-keeper | xargs kill -KILL
  wait_for 120 "A trains in another generation" in_generation_after "$grown_to"
  report "$(grep 'training went on' "$BOX/home/A.out")"
  wait_for 60 "it is told" said 'training went on with the state that a generation before it left behind'
  refute said 'training went on with .* of step'
  goes_on_well
}

# bats test_tags=long:1
@test "vaults let go of older generations when the new one has what a loss needs" {
  tiny+=(--set recovery.snapshot_steps=5)
  grown_cast
  held_at_rest
  deposited() { ls -l "/proc/$(launcher_pid)/fd" | grep -c 'memfd:espalier-marks'; }
  [ "$(generation_of)" -gt 0 ]
  wait_for 30 "of the launcher's own two ranks only the last generation's are there" eval '[ "$(deposited)" = 2 ]'
  survives 120 kill_worker 0
  wait_for 30 "likewise after a loss" eval '[ "$(deposited)" = 2 ]'
  goes_on_well
}

# bats test_tags=long:2
@test "a worker of the generation that recovers killed too" {
  grown_cast
  before=$(generation_of)
  kill_worker
  wait_for 20 "the next generation's workers are there" has_workers $((before + 1))
  workers $((before + 1)) | tail -n 1 | xargs -r kill -KILL || true
  wait_for 120 "A trains in a later generation" in_generation_after "$before"
  goes_on_well
}

@test "the job finishes with the losses of an undisturbed run after a loss" {
  steps=300 # some 80 s
  cast 2:4 "$steps"
  finish near
  finish far
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  survives 120 kill_worker 3
  ends_well "$steps"
}

@test "cancelled while it recovers: everything is released" {
  grown_cast
  kill_worker
  catch_phase recovering 60
  as_user scancel "$A"
  wait_for 60 "A and its extensions are gone" eval 'job_over "$A" && no_extensions'
  leaves_nothing
}
