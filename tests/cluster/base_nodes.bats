# The base of a movable job on two nodes: a move to two others, and the loss of one node. The launcher runs on n3 or n4.
# box: -n 4 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  bring_back n2
  clean_slate
}

bases_of() { squeue -h -n "base-$1" -o %i 2>/dev/null; }
one_base() { [ "$(bases_of "$A" | wc -l)" = 1 ]; }
nodes_of() { squeue -h -o %N -j "$1"; }
plan_is_on() { local plan; plan=$(metric A plan); [[ $plan == *$1/* && $plan == *$2/* && $plan != *$3/* && $plan != *$4/* ]]; }
movable() { # RANGE: A, with a base of all eight GPUs of n1 and n2; its launcher is on another node
  rm -f "$BOX"/home/A.*
  A=$(elastic A "$1,movable,base=8" -n1 --mem=500 -x n1,n2 -- "${tiny[@]}" --steps 1000000)
  wait_for 150 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  [ "$(nodes_of "$base")" = 'n[1-2]' ]
  runs_on A 8
}

@test "a base on two nodes moves to two others, and no step is lost" {
  movable 8:8
  wait_for 60 "A is asked to move" eval 'espalier migrate "$A" --nodes n3,n4'
  wait_for 180 "A runs on n3 and n4 alone" plan_is_on n3 n4 n1 n2
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = 'n[3-4]' ]
  runs_on A 8
  local twice
  twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d)
  [ -z "$twice" ]
  goes_on_well 60
}

@test "a node of the base is lost: training goes on on the other one, and the base is given back at the end" {
  movable 4:8
  ip link set v2 down
  kill -KILL $(ip netns pids n2)
  wait_for 150 "A runs on n1 alone" eval '[[ $(metric A plan) == *n1/* && $(metric A plan) != *n2/* ]] && runs_on A 4'
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  [ "$(bases_of "$A")" = "$base" ]
  same_losses A
  as_user scancel "$A"
  scontrol update nodename=n2 state=down reason=test
  wait_for 60 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
}
