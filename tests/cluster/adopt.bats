# The launcher of a movable job is lost with its node: keepers hold the state, and the launcher that Slurm starts when it has requeued
# the job goes on with it.
# The launchers run on n3 and n4, and the base on n1 and n2.
# box: -n 4 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 200

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  ip link set v3 up
  scontrol update nodename=n3 state=resume 2>/dev/null || true
  clean_slate
}

bases_of() { squeue -h -n espalier-base -t PENDING,RUNNING -o '%i %k' 2>/dev/null | awk -v tag="espalier:base:$1:" 'index($2, tag) == 1 {print $1}'; }
no_bases() { [ -z "$(squeue -h -n espalier-base -o %i)" ]; }
node_of() { squeue -h -o %N -j "$1"; }
said() { grep -q "$1" "$BOX/home/A.out"; }
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
generation_of() { local generation; generation=$(metric A generation); echo "${generation:-0}"; }
in_generation_after() { [ "$(generation_of)" -gt "$1" ]; }
# A step that was lost is done twice.
no_step_lost() { local twice; twice=$(sed -nE 's/.*"step":([0-9]+).*/\1/p' "$BOX/home/A.jsonl" | sort | uniq -d); [ -z "$twice" ] || { echo "twice: $twice"; return 1; }; }

movable() { # [RANGE [STEPS]]: A, whose launcher runs on n3; it trains
  rm -f "$BOX"/home/A.*
  A=$(elastic A "${1:-2:2},movable" -n1 --mem=500 -x n1,n2 --open-mode=append -- "${tiny[@]}" --steps "${2:-1000000}")
  wait_for 120 "A trains" stepped_past A 10
  base=$(bases_of "$A")
  [ "$(node_of "$A")" = n3 ]
}
# Slurm takes n3 for lost, and requeues A. It then waits two minutes; this test does not.
loses_n3() {
  scontrol update nodename=n3 state=down reason=test
  wait_for 30 "A waits to run again" job_is "$A" PENDING
}
runs_again() {
  scontrol update jobid="$A" StartTime=now
  wait_for 60 "A runs again" job_is "$A" RUNNING
  [ "$(node_of "$A")" = n4 ]
}
goes_on_from_kept_state() { # GENERATION before
  local start
  start=$(now_ms)
  wait_for 60 "A trains in a generation after $1" in_generation_after "$1"
  echo "# $BATS_TEST_DESCRIPTION: $(($(now_ms) - start)) ms from the start of the requeued job to the next step" >&3
  wait_for 10 "it is told" said 'Slurm has requeued the job; training went on with the state it left behind'
  grep 'training went on' "$BOX/home/A.out" | tail -n 1 | sed 's/^/# /' >&3
  [ "$(bases_of "$A")" = "$base" ]
  no_step_lost
}

@test "the node of the launcher is cut off: the requeued job goes on from kept state, and no step is lost" {
  movable
  ip link set v3 down
  loses_n3
  runs_again
  goes_on_from_kept_state 0
  ip link set v3 up
  goes_on_well 40
  no_step_lost
}
