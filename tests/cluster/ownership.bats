# Extensions: how they are granted on a busy cluster, whose they are, how fast they go back, and that they go when their owner
# does. A launcher or worker that is killed is in faults.bats.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 600
# each: 180

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  ip link set v2 up
  scontrol update PartitionName=elastic MinNodes=0
  scheduler
  clean_slate
}

scheduler() { # [SchedulerParameters]
  sed -i '/^SchedulerParameters/d' "$SLURM_CONF"
  [ -z "${1:-}" ] || echo "SchedulerParameters=$1" >> "$SLURM_CONF"
  scontrol reconfigure
}
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
report() { echo "# $*" >&3; }
field_of() { squeue -h -j "$1" -o "$2" | xargs; } # JOB FORMAT
all_gone_within() { # SECONDS: A, its extensions and every process and object
  finish near
  finish far
  wait_for "$1" "A and its extensions are gone" eval 'job_over "$A" && no_extensions'
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h)" ]'
  assert_nothing_left
}

# --- being granted (6, 7) ------------------------------------------------------------------------------------------------

refusals() { grep -c "_slurm_rpc_submit_batch_job: $1" "$BOX/log/slurmctld.log" || true; }

@test "where scheduling is deferred, what would start at once is refused, and the queue grants the extension" {
  scheduler defer
  cast
  before=$(refusals "Job can not start immediately")
  finish near
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  [ "$(refusals "Job can not start immediately")" -gt "$before" ]
  goes_on_well
}

@test "idle GPUs that another job gets before the extension are not waited for" {
  scontrol update PartitionName=elastic MinNodes=2 # the extension waits: by itself Slurm starts it within 0 to 3 s
  cast
  thief=$(plain thief -H -N1 -n1 -w n1 --gres=gpu:2)
  finish near
  wait_for 60 "an extension waits" eval '[ -n "$(squeue -h -p elastic -t PD)" ]'
  scontrol release "$thief"
  wait_for 60 "another job has the GPUs" job_is "$thief" RUNNING
  wait_for 30 "the growth is given up" grep -q 'on n1 have gone to another job' "$BOX/log/espalierd.log"
  wait_for 60 "the extension is withdrawn" no_extensions
  scontrol update PartitionName=elastic MinNodes=0
  finish thief
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  goes_on_well
}

# bats test_tags=long:1
@test "behind a waiting job of a higher tier the queue grants the extension, and the waiting job loses nothing by it" {
  scheduler bf_interval=2
  cast
  urgent=$(plain urgent -N1 -n1 -w n2 --gres=gpu:4)
  before=$(refusals)
  finish near
  wait_for 60 "A runs on 4 GPUs" runs_on A 4
  grep submit_batch_job "$BOX/log/slurmctld.log" | tail -n 4
  [ "$(refusals)" -gt "$before" ]
  job_is "$urgent" PENDING
  ended=$(now_us)
  finish far
  within 15 "$ended" "the urgent job starts" job_is "$urgent" RUNNING
  finish urgent
  goes_on_well
}

@test "idle GPUs that a larger job waits for are lent for whole minutes that end before it starts, or not at all" {
  scheduler bf_interval=2
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2)
  far=$(plain far -t 7 -N1 -n1 -w n2 --gres=gpu:2)
  large=$(plain large -t 5 -N1 -n1 -w n2 --gres=gpu:4)
  A=$(elastic A 2:8 -N1 -n1 -w n1 --gres=gpu:2 -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "A trains" stepped_past A 10
  if wait_for 30 "A runs on 4 GPUs" runs_on A 4; then
    extension=$(extensions_of "$A")
    lease=$(field_of "$extension" %l) ends=$(date -d "$(field_of "$extension" %e)" +%s) starts=$(date -d "$(field_of "$large" %S)" +%s)
    report "lent for $lease, until $((starts - ends)) s before the larger job's expected start"
    [[ $lease == *:00 ]]
    [ "$ends" -le $((starts - 60)) ] # KillWait and a minute, less what the grant took
  else
    report "not lent"
  fi
  job_is "$large" PENDING
  finish far
  wait_for 60 "the larger job starts when its GPUs are free" job_is "$large" RUNNING
  finish large
  goes_on_well
}

# --- whose they are (10, 11) ---------------------------------------------------------------------------------------------

@test "an extension names its anchor and a nonce, and goes back in a fraction of KillWait" {
  grown_cast
  comments=$(squeue -h -p elastic -o %k | sort)
  echo "$comments"
  [ "$(wc -l <<< "$comments")" -ge 2 ]
  [ "$(sort -u <<< "$comments")" = "$comments" ]
  refute grep -Ev "^espalier:ext:$A:[0-9a-f]{8,}\$" <<< "$comments"

  as_user espalier hold "$A"
  wait_for 60 "the old generation has left" phase_is running
  wait_for 60 "its extensions are asked back" as_user espalier reclaim "$A"
  for ((tries = 0; tries < 6000; tries++)); do no_extensions && break; sleep 0.01; done
  idle=$(now_ms)
  no_extensions
  decided=$(espalier explain "$A" --json | python3 -c 'import json, sys
moments = [t["time"] for t in json.load(sys.stdin)["transitions"] if t["to"] == "committed"]
print(int(max(moments) * 1000))')
  report "given back $((idle - decided)) ms after the launcher's commit"
  [ $((idle - decided)) -lt 15000 ] # of 30 s
  idle_gpus() { espalier show nodes --json | tr -d ' \n' | grep -o '"idle_gpus":[0-9]*' | xargs; }
  wait_for 60 "espalierd sees them idle" eval '[ "$(idle_gpus)" = "idle_gpus:2 idle_gpus:4" ]'
  goes_on_well
}

@test "an extension whose anchor is gone is ended by espalierd; a keeper whose launcher is gone ends its job" {
  gone=$(as_user sbatch --parsable -o /dev/null --wrap true)
  wait_for 20 "it has ended" job_over "$gone"
  stray=$(as_user sbatch --parsable -J espalier-ext -p elastic --gres=gpu:1 --comment="espalier:ext:$gone:0123abcd" -o stray.out --wrap 'exec sleep 600')
  as_user tee keeper.sh > /dev/null <<S
#!/bin/sh
sleep 601 &
exec '$BOX/bin/espalier-launch' keeper --extension
S
  kept=$(ESPALIER_LAUNCHER=10.77.0.2:9 ESPALIER_TOKEN=none as_user sbatch --parsable --gres=gpu:1 -o keeper.out keeper.sh)
  wait_for 10 "both run" eval 'job_is "$stray" RUNNING && job_is "$kept" RUNNING'
  wait_for 100 "both have ended" eval 'job_over "$stray" && job_over "$kept"'
  grep -q "extension $stray of job $gone: its anchor has ended; ending it" "$BOX/log/espalierd.log"
  assert_nothing_left
}

@test "another user's job that names an anchor is no extension of it" {
  cast
  forged=$(as_user -u mallory sbatch --parsable -D /tmp -J espalier-ext -p elastic --gres=gpu:1 --comment="espalier:ext:$A:0123abcd" -o /dev/null --wrap 'sleep 600')
  sleep 3
  [ "$(espalier show job "$A" -o | sed -n 's/.* Extensions=\([^ ]*\).*/\1/p')" = '(null)' ]
  scancel "$forged"
  goes_on_well
}

# --- going with their owner (14, 15, 16) ---------------------------------------------------------------------------------

@test "the launcher of a job without extensions killed: Slurm's epilog removes its folder" {
  cast
  kill -KILL "$(launcher_pid)"
  finish near
  finish far
  all_gone_within 10
}

@test "cleaning up after a job leaves those of other jobs and users and what is in use" {
  cast
  mkdir -m 700 /tmp/espalier-4242-"$A"0-0-abc /tmp/espalier-4242-7-0-abc /tmp/espalier-4242-7-1-def /tmp/espalier-0-7-0-abc
  chown boxuser /tmp/espalier-4242-7-* /tmp/espalier-4242-"$A"0-0-abc
  mkdir /tmp/kept
  ln -s /tmp/kept /tmp/espalier-4242-7-2-link
  before=$(ls -d /tmp/espalier-*)
  as_user "$BOX/bin/espalier-launch" clean "$A"
  [ "$(ls -d /tmp/espalier-*)" = "$before" ]
  as_user "$BOX/bin/espalier-launch" clean 7
  [ "$(ls -d /tmp/espalier-*)" = "$(grep -v -e '-4242-7-[01]' <<< "$before")" ]
  rm -r /tmp/espalier-4242-"$A"0-0-abc /tmp/espalier-0-7-0-abc /tmp/espalier-4242-7-2-link /tmp/kept
  for words in "clean" "clean 7 8"; do
    run as_user "$BOX/bin/espalier-launch" $words
    [ "$status:$output" = "2:espalier: launch: clean: the number of one job is expected" ]
  done
  run as_user "$BOX/bin/espalier-launch" clean 7x
  [ "$status:$output" = '2:espalier: launch: clean: "7x" is not the number of a job' ]
  goes_on_well
}

# bats test_tags=long:5
@test "the launcher killed while two generations stand beside each other: nothing is left in /dev/shm or /tmp" {
  cast
  finish near
  finish far
  catch_phase ready
  kill -KILL "$(launcher_pid)"
  all_gone_within 10
}
