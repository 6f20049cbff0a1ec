# A base on two nodes is a gang: the keepers of its nodes outlive the srun that started them, SIGTERM, and the loss of the node that the
# base's batch script ran on. The launcher runs on n3.
# box: -n 3 -y none -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 240
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  bring_back n1
  clean_slate
}

bases_of() { squeue -h -n "base-$1" -o %i 2>/dev/null; }
node_of() { squeue -h -o %N -j "$1"; }
no_step_twice() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "twice: $twice"; return 1; }; }
plan_is_on_n2() { [[ $(metric A plan) == *n2/* && $(metric A plan) != *n1/* ]]; }
# The keepers of the base, by node: the one of the batch script, and the one of the step.
keepers() { # NODE
  local pid
  for pid in $(processes espalier-keeper "SLURM_JOB_ID=$base"); do
    ! tr '\0' '\n' < "/proc/$pid/environ" | grep -qx "SLURMD_NODENAME=$1" || echo "$pid"
  done
}
# What started the keepers of the other nodes: srun, which is two processes. On SIGTERM it ends them.
keepers_step() { pgrep -u boxuser -f '^srun .*keeper --base-node'; }
# A, with a base of the eight GPUs of n1 and n2; the batch script of the base is on n1.
gang() {
  rm -f "$BOX"/home/A.*
  A=$(elastic A "4:8,movable,base=8" -n1 --mem=500 -x n1,n2 -- "${tiny[@]}" --set recovery.snapshot_steps=5 --steps 1000000)
  wait_for 150 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  held_at_rest # another plan on the same GPUs would be another generation
  [ "$(scontrol show job "$base" | sed -n 's/.*BatchHost=//p')" = n1 ]
  runs_on A 8
  generation=$(metric A generation)
  first=$(keepers n1) second=$(keepers n2)
  [ "$(wc -w <<< "$first $second")" = 2 ]
  wait_for 20 "the step of the keepers is without srun" eval '[ -z "$(keepers_step)" ]'
}
# Not more than what lies between three copies of the state was lost: a plan of eight stages has every layer on one GPU alone.
goes_on_from_kept_state() {
  local went_on lost
  wait_for 60 "it is told" grep -q 'after step [0-9]*; training went on with ' "$BOX/home/A.out"
  went_on=$(grep -o 'after step [0-9]*; training went on with .*' "$BOX/home/A.out")
  echo "# $went_on" >&3
  [[ $went_on != *'initial weights'* ]]
  lost=$(sed -nE 's/^after step ([0-9]+); training went on with [^,]* of step ([0-9]+),.*/\1 - \2/p' <<< "$went_on")
  [ $((${lost:-0})) -le 15 ]
}
same_keepers() { [ "$(keepers n1)" = "$first" ] && [ "$(keepers n2)" = "$second" ]; }
goes_on_as_before() {
  wait_for 60 "A does 10 more steps" stepped_past A $(($(step_of A) + 10))
  same_keepers
  [ "$(metric A generation)" = "$generation" ]
  runs_on A 8
}

@test "the keepers of a base outlive SIGTERM to all its processes, and are there when a generation is lost afterwards" {
  gang
  as_user scancel -s TERM --full "$base"
  sleep 2
  goes_on_as_before
  no_step_twice
  kill -KILL "$(workers "$generation" | tail -n 1)"
  wait_for 60 "A trains in a later generation" eval '[ "$(metric A generation)" -gt "$generation" ]'
  goes_on_from_kept_state
  [ "$(bases_of "$A")" = "$base" ]
  same_keepers
  no_step_twice
  goes_on_well 40
}

# bats test_tags=long:4
@test "the node of a base's batch script is lost: training goes on on the other one from kept state, and scancel ends the base" {
  gang
  wait_for 60 "there are copies of the state" stepped_past A 30
  ip link set v1 down
  kill -KILL $(ip netns pids n1)
  wait_for 90 "A runs on n2 alone" eval 'plan_is_on_n2 && runs_on A 4'
  goes_on_from_kept_state
  scontrol update nodename=n1 state=down reason=test
  wait_for 30 "the base has n2 alone" eval '[ "$(node_of "$base")" = n2 ]'
  [ "$(keepers n2)" = "$second" ]
  goes_on_well 40
}

# Nobody is left that ends the base with its batch script.
# bats test_tags=long:3
@test "the node of a base's batch script is lost, and then the launcher, without a planner: the keeper of the other one ends the base" {
  gang
  ip link set v1 down
  kill -KILL $(ip netns pids n1)
  wait_for 90 "A runs on n2 alone" eval 'plan_is_on_n2 && runs_on A 4'
  scontrol update nodename=n1 state=down reason=test
  wait_for 30 "the base has n2 alone" eval '[ "$(node_of "$base")" = n2 ]'
  "$BOX_HERE/planner.sh" kill
  kill -KILL "$(launcher_pid)"
  start=$SECONDS
  wait_for 90 "the base is gone" eval '[ -z "$(bases_of "$A")" ]'
  echo "# from the launcher's death to the base's end: $((SECONDS - start)) s" >&3
  leaves_nothing 40
}
