# The base of a movable job waits, and changes the GPUs that it waits for: by an update of the Slurm job, which keeps its id and its age.
# box: -n 4 -y a100 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 240
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -t PENDING,RUNNING -o %i 2>/dev/null; }
submitted_at() { scontrol show job "$1" | sed -nE 's/.*SubmitTime=([^ ]*) .*/\1/p'; }
node_of() { squeue -h -o %N -j "$1"; }
said() { grep -q -- "$1" "$BOX/home/A.out"; }
same_base() { [ "$(bases_of "$A")" = "$base" ] && [ "$(submitted_at "$base")" = "$age" ]; }
# Other jobs hold all GPUs of the nodes; A's base waits. n1 and n2 have h100, n3 and n4 a100.
waits() { # --elastic NODE...
  local node
  for node in "${@:2}"; do held[$node]=$(plain "f$node" -N1 -n1 -w "n$node" --gres=gpu:4 --mem=100); done
  wait_for 30 "they run" eval '[ "$(squeue -h -t RUNNING | wc -l)" = '$(($# - 1))' ]'
  rm -f "$BOX"/home/A.*
  A=$(elastic A "$1" -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "the base waits" eval 'base=$(squeue -h -n "base-$A" -t PENDING -o %i) && [ -n "$base" ]'
  age=$(submitted_at "$base")
  wait_for 30 "the planner knows it" eval 'espalier show job "$A" | grep -q "Bases=$base"'
}
ends() { local node; for node in "$@"; do finish "f$node"; done; }

# bats test_tags=long:5
@test "a base waits for h100 while a100 are free; its user has it wait for a100, and it starts there at once" {
  waits 2:2,movable,types=h100+a100 1 2 3 4
  wait_for 30 "Slurm's word of the base has come" eval 'output=$(espalier migrate "$A" --type h100)'
  [ "$output" = "The base of job $A waits for GPUs of type h100" ]
  wait_for 30 "it waits for h100" said "base $base waits for n\[1-2\] now"
  same_base
  ends 3 4
  # Slurm starts others there, and not the base.
  probe=$(plain probe -N1 -n1 -w n3 --gres=gpu:1 --mem=100)
  wait_for 30 "a younger job starts on n3" job_is "$probe" RUNNING
  job_is "$base" PENDING
  finish probe
  start=$SECONDS
  espalier migrate "$A" --type a100
  wait_for 60 "the base runs" job_is "$base" RUNNING
  echo "# from the wish to the start: $((SECONDS - start)) s" >&3
  same_base
  [[ $(node_of "$base") == n[34] ]]
  wait_for 120 "A trains" stepped_past A 10
  ends 1 2
  goes_on_well 40
}

# bats test_tags=long:3
@test "a base waits for one node, and then for any again" {
  waits 2:2,movable 1 2 3 4
  wait_for 30 "Slurm's word of the base has come" espalier migrate "$A" --nodes n2
  wait_for 30 "it waits for n2" said "base $base waits for n2 now"
  ends 4
  probe=$(plain probe -N1 -n1 -w n4 --gres=gpu:1 --mem=100)
  wait_for 30 "a younger job starts on n4" job_is "$probe" RUNNING
  job_is "$base" PENDING
  run espalier migrate "$A"
  echo "$output"
  [ "$output" = "The base of job $A waits for any GPUs that it may have" ]
  wait_for 60 "the base runs" job_is "$base" RUNNING
  same_base
  [ "$(node_of "$base")" = n4 ]
  finish probe
  wait_for 120 "A trains" stepped_past A 10
  ends 1 2 3
  goes_on_well 40
}

@test "a base of several nodes waits for nodes of one type, and for those of another when its user says so" {
  waits 6:6,movable 1 2 3 4 # three GPUs on each of two nodes
  excludes() { scontrol show job "$base" | grep -q "ExcNodeList=$1\$"; }
  excludes 'n\[1-2\]' # there are as many GPUs of both types, none is idle, and a100 is first by name
  wait_for 30 "Slurm's word of the base has come" espalier migrate "$A" --type h100
  wait_for 30 "it waits for h100" excludes 'n\[3-4\]'
  ends 1 3
  sleep 5 # one node of each type is idle now, and the base needs two of one type
  job_is "$base" PENDING
  ends 2
  wait_for 60 "the base runs" job_is "$base" RUNNING
  same_base
  [ "$(node_of "$base")" = 'n[1-2]' ]
  ends 4
  wait_for 120 "A trains" stepped_past A 10
  goes_on_well 40
}

@test "where a base cannot wait it stays as it is, and the user is told why" {
  waits 2:2,movable,types=h100 1 2
  refused() { run espalier migrate "$A" "${@:2}"; echo "$output"; [ "$status" = 1 ]; [[ $output == *"$1"* ]]; }
  wait_for 30 "Slurm's word of the base has come" espalier migrate "$A" --type h100
  refused 'type a100: types= of the job leaves it out' --type a100
  refused 'n3: has GPUs of type a100, which types= of the job leaves out' --nodes n3
  refused 'Slurm knows no such node' --nodes n9
  same_base
  job_is "$base" PENDING
  ends 1
  wait_for 60 "the base runs" job_is "$base" RUNNING
  same_base
  ends 2
  as_user scancel "$A"
  leaves_nothing 40
}
