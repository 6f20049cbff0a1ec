# How long the bases of a movable job run: the user's limit applies to the sum of their times. Partition short has a longest time limit.
# n3 and n4 have no GPUs.
# box: -n 4 -y none -c 'PartitionName=short Nodes=n1,n2 MaxTime=30 DefaultTime=5 PriorityTier=10' -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1200
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  bring_back n3
  clean_slate
}

bases_of() { squeue -h -n "base-$1" -t "${2:-PENDING,RUNNING}" -o %i 2>/dev/null; }
nodes_of() { squeue -h -o %N -j "$1"; }
limit_of() { scontrol show job "$1" | sed -nE 's/.* TimeLimit=([^ ]*) .*/\1/p'; } # HH:MM:SS
# When its time limit ends a running job, in seconds since the epoch.
end_of() { date -d "$(scontrol show job "$1" | sed -nE 's/.* EndTime=([^ ]*) .*/\1/p')" +%s; }
# For how long Slurm had it in the queue. Its limit is what was left when it was submitted.
queued_for() {
  local job submitted started
  job=$(scontrol show job "$1")
  submitted=$(sed -nE 's/.*SubmitTime=([^ ]*) .*/\1/p' <<< "$job") started=$(sed -nE 's/.*StartTime=([^ ]*) .*/\1/p' <<< "$job")
  echo $(($(date -d "$started" +%s) - $(date -d "$submitted" +%s)))
}
deadline_of() { date -d "$(scontrol show job "$1" | sed -nE 's/.*Deadline=([^ ]*).*/\1/p')" +%s; }
said() { grep -q -- "$1" "$BOX/home/A.out"; }
movable() { # RANGE STEPS SBATCH-OPTION...
  rm -f "$BOX"/home/A.*
  A=$(elastic A "$1" -n1 --mem=500 "${@:3}" -- "${tiny[@]}" --steps "$2")
}
trains() { wait_for 120 "A trains" stepped_past A 10; base=$(bases_of "$A" RUNNING); }
both_held() {
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:4 --mem=100)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  wait_for 30 "they run" eval 'job_is "$near" RUNNING && job_is "$far" RUNNING'
}
base_waits() { base=$(bases_of "$A" PENDING) && [ -n "$base" ]; }
# A base beside $1 runs that Slurm would have dropped, had it not started within some minutes.
had_to_start_soon() {
  local base spare
  for base in $(bases_of "$A" RUNNING); do
    [ "$base" != "$1" ] || continue
    spare=$(($(deadline_of "$base") - $(end_of "$base")))
    if [ "$spare" -ge 0 ] && [ "$spare" -le 240 ]; then return; fi
  done
  return 1
}
# The base of A moves, and then is another job, which ends no later than the one before.
moves_within_its_time() {
  local until there second
  until=$(end_of "$base")
  there=$(nodes_of "$base")
  other=n1 && [ "$there" = n2 ] || other=n2
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes "$other"'
  wait_for 60 "the second base runs, and had a deadline" had_to_start_soon "$base"
  wait_for 120 "A has one base, another one" eval 'second=$(bases_of "$A" RUNNING) && [ "$(wc -w <<< "$second")" = 1 ] && [ "$second" != "$base" ]'
  echo "# the first base would have ended at $until, the second one ends at $(end_of "$second") after $(queued_for "$second") s in the queue" >&3
  [ "$(end_of "$second")" -le $((until + 5 + $(queued_for "$second"))) ]
  [ "$(end_of "$second")" -gt $((until - 120)) ]
  base=$second
}

# bats test_tags=long:2
@test "a base that waits has no longer time limit than the submitted job has left, and no shorter one either" {
  both_held
  movable 2:2,movable 100 -t 9 --no-requeue
  wait_for 60 "the base waits" base_waits
  [[ $(limit_of "$base") == 00:0[89]:00 ]]
  [ $(($(deadline_of "$base") - $(end_of "$A"))) = 1800 ] # its launcher may die
  refute grep -q 'TimeMin=00' <(scontrol show job "$base")
  was=$(limit_of "$base")
  wait_for 150 "its time limit is lowered" eval '[[ $(limit_of "$base") < "$was" ]]'
  finish near
  wait_for 60 "it runs" job_is "$base" RUNNING
  [[ $(limit_of "$base") == 00:0[678]:00 ]]
  ends_well 100
}

# bats test_tags=long:4
@test "a second base has what the first one has left of time=, and waiting has not counted" {
  both_held
  movable 2:2,movable,time=20 1000000 # the partition of all jobs has no limit, and so the job has none
  wait_for 60 "the base waits" base_waits
  [ "$(limit_of "$base")" = 00:20:00 ]
  sleep 65 # more than a minute of waiting
  [ "$(limit_of "$base")" = 00:20:00 ]
  finish near
  finish far
  trains
  [ "$(limit_of "$base")" = 00:20:00 ]
  moves_within_its_time
  scontrol update jobid="$base" TimeLimit=+10 # by an administrator
  moves_within_its_time
  goes_on_well 60
}

# bats test_tags=long:6
@test "after Slurm has requeued the job a second base still has what the first one has left" {
  movable 2:2,movable 1000000 -t 15 -x n1,n2 --requeue --open-mode=append
  trains
  until=$(end_of "$base")
  sleep 65 # the job's limit begins anew, this much later
  [ "$(nodes_of "$A")" = n3 ]
  ip link set v3 down
  kill -KILL $(ip netns pids n3)
  scontrol update nodename=n3 state=down reason=test
  wait_for 60 "A waits to run again" job_is "$A" PENDING
  scontrol update jobid="$A" StartTime=now
  wait_for 120 "A goes on" said 'Slurm has requeued the job; training went on with the state it left behind'
  [ "$(bases_of "$A" RUNNING)" = "$base" ]
  [ "$(end_of "$base")" = "$until" ]
  [ "$(end_of "$A")" -gt $((until + 60)) ]
  moves_within_its_time
  goes_on_well 60
}

@test "time= of a job whose own limit is shorter than its partition allows is refused in words" {
  movable 2:2,movable,time=10 100 -p short
  wait_for 60 "A ends" job_over "$A"
  said "the submitted job's own limit must be the partition's maximum, 30 minutes, but it is 5 minutes; submit it with --time=30, or leave time= out"
  [ -z "$(bases_of "$A")" ]
  movable 2:2,movable,time=10 100 -t 10
  wait_for 60 "A ends" job_over "$A"
  said "the submitted job's own limit must be the partition's maximum, unlimited, but it is 10 minutes; submit it with --time=UNLIMITED, or leave time= out"
  movable 2:2,movable,time=10 60 -p short -t 30
  wait_for 60 "its base is there" eval 'base=$(bases_of "$A") && [ -n "$base" ]'
  [ "$(limit_of "$base")" = 00:10:00 ]
  ends_well 60
}

@test "each wrong time= is refused where it is typed" {
  refused() { run as_user sbatch --elastic="$1" -n1 --wrap true; echo "$output"; [ "$status" -ne 0 ]; [[ $output == *"$2"* ]]; }
  refused 1:4,movable,time=soon "the time is not one of Slurm's"
  refused 1:4,movable,time=0 "the time is 0"
  refused 1:4,time=10 "time is for movable jobs"
}
