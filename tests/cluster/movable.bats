# Movable jobs: the submitted job holds no GPUs, and its base, a Slurm job of its own, is replaced while it trains.
# box: -n 4 -y a100 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 1800
# each: 300
# beside
# early

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

bases_of() { squeue -h -n "base-$1" -o %i 2>/dev/null; }
bases() { bases_of "$A" | wc -l; }
nodes_of() { squeue -h -o %N -j "$1"; }
gpus_of_job() { scontrol show -d job "$1" | sed -n 's/.*JOB_GRES=gpu.*:\([0-9]*\)$/\1/p' | head -n 1; }
no_bases() { [ -z "$(squeue -h -n "base-$A" -o %i)" ]; }
one_base() { [ "$(bases_of "$A" | wc -l)" = 1 ]; }
base_state() { [ "$(squeue -h -n "base-$A" -o %T)" = "$1" ]; }
# No GPU is in two jobs: by node, the indices that Slurm says its running jobs have.
no_gpu_twice() {
  local twice
  twice=$(scontrol show -d job | awk '/JobState=/ {runs = /JobState=RUNNING/} runs && /^ *Nodes=.*IDX/ {print $1, $NF}' |
    sed -E 's/Nodes=([^ ]*) .*IDX:([^)]*)\).*/\1 \2/' | sort | uniq -d)
  [ -z "$twice" ] || { echo "twice: $twice"; return 1; }
}
# A, movable, with a base of two GPUs; fillers hold GPUs that it shall not get at first.
movable() { # [RANGE [STEPS [SBATCH-OPTION...]]]
  rm -f "$BOX"/home/A.*
  A=$(elastic A "${1:-2:2},movable" -n1 --mem=500 "${@:3}" -- "${tiny[@]}" --steps "${2:-1000000}")
}
seconds_of_a_step() { tail -n 9 "$BOX/home/A.jsonl" | sed -nE 's/.*"seconds":([0-9.e-]+).*/\1/p' | sort -g | sed -n 2p; } # of nine the second shortest: load only makes steps longer
trains() { wait_for 120 "A trains" stepped_past A 10; base=$(bases_of "$A"); }

@test "a movable job trains on its base, grows with extensions, and ends with nothing left" {
  far=$(plain far -N1 -n1 -w n3 --gres=gpu:4 --mem=100)
  movable 2:4,types=h100 400
  trains
  [ -n "$base" ]
  [ "$(gpus_of_job "$base")" = 2 ]
  refute eval 'scontrol show -d job "$A" | grep -q GRES=gpu'
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  espalier show job "$A" | tee "$BOX/log/shown"
  grep -q "Movable=Yes Bases=$base" "$BOX/log/shown"
  no_gpu_twice
  ends_well 400
}

@test "espalier migrate moves the base of a running job to GPUs of another type, and no step is lost" {
  movable 2:4
  trains
  [ "$(nodes_of "$base")" = n1 ]
  wait_for 120 "A runs on 4 GPUs" runs_on A 4
  wait_for 60 "A moves" eval 'espalier migrate "$A" --type a100'
  wait_for 120 "A runs on n3" eval '[[ $(metric A plan) == *n3/* ]]'
  no_gpu_twice
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n3 ]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q 'Kind=migrate' "$BOX/log/shown"
  grep -q 'a user asked to move its base to n3' "$BOX/log/shown"
  goes_on_well 40
}

@test "a base moves where none of its nodes stays: by way of a plan on both bases, and no step is lost" {
  movable 2:2
  trains
  [ "$(nodes_of "$base")" = n1 ]
  wait_for 60 "A moves" espalier migrate "$A" --type a100
  wait_for 120 "A runs on n3 alone" eval '[[ $(metric A plan) == *n3/* && $(metric A plan) != *n1/* ]]'
  no_gpu_twice
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n3 ]
  runs_on A 2
  wait_for 60 "it is at rest" phase_is running
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "training leaves base $base" "$BOX/log/shown"
  goes_on_well 40
}

# An h100 here is twice as fast as an a100: the node setup tells each rank the pace of its node.
@test "the planner moves a base to idle GPUs of a faster type, which trains it faster, and no step is lost" {
  espalier forget --all # of earlier tests, whose devices are as fast under both names
  as_user tee pace.sh > /dev/null <<'S'
#!/bin/sh
case $SLURMD_NODENAME in n[12]) echo export PACE=0.8 ;; *) echo export PACE=0.4 ;; esac
S
  as_user tee paced-train > /dev/null <<'S'
#!/bin/sh
# espalier: describes itself
exec espalier-train "$@" --set device.gflops="${PACE:-0.4}"
S
  as_user chmod +x pace.sh paced-train
  one=$(plain one -N1 -n1 -w n1 --gres=gpu:4 --mem=100)
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  TRAINER=./paced-train movable "2:2,types=h100+a100,node_setup=$BOX/home/pace.sh"
  trains
  [[ $(nodes_of "$base") == n[34] ]]
  before=$(seconds_of_a_step)
  finish one
  wait_for 120 "A runs on n1 alone" eval '[[ $(metric A plan) == *n1/* && $(metric A plan) != *n[34]/* ]]'
  no_gpu_twice
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n1 ]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q 'h100 GPUs on n1 train it [0-9.]* times as fast as its a100' "$BOX/log/shown"
  wait_for 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
  after=$(seconds_of_a_step)
  echo "# a step took $before s on a100 and takes $after s on h100" >&3
  awk -v before="$before" -v after="$after" 'BEGIN { exit !(after < 0.8 * before) }'
  finish two
  goes_on_well 40
}

@test "a job that waits because idle GPUs are scattered starts after one move, and no step is lost" {
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:2 --mem=100)
  three=$(plain three -N1 -n1 -w n3 --gres=gpu:4 --mem=100)
  four=$(plain four -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  movable 2:2
  trains
  [ "$(nodes_of "$base")" = n1 ]
  # Two GPUs are idle on n1 and two on n2; it wants four of one node.
  big=$(plain big -N1 -n1 --gres=gpu:4 --mem=100)
  start=$SECONDS
  wait_for 200 "the waiting job starts" job_is "$big" RUNNING
  echo "# from submission to start: $((SECONDS - start)) s" >&3
  [ "$(nodes_of "$big")" = n1 ]
  no_gpu_twice
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n2 ]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "job $big waits for room on n1, which its base leaves for n2" "$BOX/log/shown"
  for one in two three four big; do finish $one; done
  goes_on_well 40
}

# bats test_tags=long:6
@test "extensions leave the GPUs to which a base moves for a waiting job" {
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:2 --mem=100)
  three=$(plain three -N1 -n1 -w n3 --gres=gpu:4 --mem=100)
  four=$(plain four -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2 --mem=100)
  wait_for 30 "near runs" job_is "$near" RUNNING
  movable 2:4
  trains
  wait_for 120 "A has grown to n2" eval '[[ $(metric A plan) == *n2/* ]]'
  espalier hold "$A" # until near has ended: it would grow there
  big=$(plain big -N1 -n1 --gres=gpu:4 --mem=100)
  finish near
  wait_for 60 "near has ended" eval '[ -z "$(squeue -h -n near)" ]'
  espalier release "$A"
  wait_for 200 "the waiting job starts" job_is "$big" RUNNING
  [ "$(nodes_of "$big")" = n1 ]
  no_gpu_twice
  wait_for 120 "the first base is gone" one_base
  [ "$(nodes_of "$(bases_of "$A")")" = n2 ]
  espalier explain "$A" | tee "$BOX/log/shown"
  grep -q "job $big waits for GPUs that extensions hold" "$BOX/log/shown"
  grep -q "job $big waits for room on n1" "$BOX/log/shown"
  for one in two three four big; do finish $one; done
  goes_on_well 40
}

@test "with the planner dead, Slurm preempts an extension of a movable job, which shrinks by itself and loses no step" {
  three=$(plain three -N1 -n1 -w n3 --gres=gpu:4 --mem=100)
  four=$(plain four -N1 -n1 -w n4 --gres=gpu:4 --mem=100)
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:2 --mem=100)
  wait_for 30 "near runs" job_is "$near" RUNNING
  movable 2:4
  trains
  there=$(nodes_of "$base")
  wait_for 120 "A has grown" runs_on A 4
  ext=$(extensions_of "$A")
  [ -n "$ext" ]
  "$BOX_HERE/planner.sh" kill
  # One job for each node that has extensions, with all GPUs that the base does not hold there.
  for node in $(for id in $ext; do nodes_of "$id"; done | sort -u); do
    plain "urgent-$node" -N1 -n1 -w "$node" --gres=gpu:$([ "$node" = "$there" ] && echo 2 || echo 4) --mem=100
  done
  finish near
  wait_for 60 "the urgent jobs run" eval '[ -z "$(squeue -h -t PENDING -o %j | grep urgent)" ]'
  wait_for 30 "A runs on its base only" runs_on A 2
  no_gpu_twice
  [ "$(bases_of "$A")" = "$base" ]
  wait_for 60 "A does 20 more steps" stepped_past A $(($(step_of A) + 20))
  for one in three four near urgent-n1 urgent-n2; do finish $one; done
  goes_on_well 40
}

@test "espalier migrate says why it does not move" {
  two=$(plain two -N1 -n1 -w n2 --gres=gpu:4 --mem=100)
  movable 2:2,types=h100
  trains
  refused() { asked_to_move "${@:2}"; echo "$output"; [ "$status" = 1 ]; [[ $output == *"$1"* ]]; }
  refused 'types= of the job leaves it out' --type v100
  refused 'types= of the job leaves it out' --type a100
  refused 'Slurm knows no such node' --nodes n9
  refused 'names more than 4096 hosts' --nodes 'x[1-1000][1-1000][1-4]'
  espalier hold "$A"
  refused 'is held' --nodes n1
  espalier release "$A"
  one_base
  finish two
  goes_on_well 40
}

@test "scancel of the submitted job ends its base and its extensions within 5 s, a waiting base too" {
  movable 2:4
  trains
  wait_for 120 "A has an extension and is at rest" eval 'runs_on A 4 && phase_is running'
  moment=$(now_us)
  as_user scancel "$A"
  within 5 "$moment" "base and extensions have ended" eval 'no_bases && no_extensions'
  within 5 "$moment" "nothing of it runs" eval '[ -z "$(pgrep -u boxuser)" ]'
  within 5 "$moment" "A has ended" job_over "$A"
  wait_for 40 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  for node in 1 2 3 4; do plain "f$node" -N1 -n1 -w "n$node" --gres=gpu:4 --mem=100; done
  movable 2:2
  wait_for 60 "the base waits" base_state PENDING
  moment=$(now_us)
  as_user scancel "$A"
  within 5 "$moment" "the base that waits has ended" no_bases
  within 5 "$moment" "A has ended" job_over "$A"
  for node in 1 2 3 4; do finish "f$node"; done
  leaves_nothing
}

# bats test_tags=long:5
@test "a second elastic step beside the first is refused in words, and the first goes on" {
  movable
  trains
  run as_user srun --jobid "$A" --overlap -n1 --elastic=2:2,movable espalier-train "$BOX/share/examples/gpt-tiny.toml" "${tiny[@]}" --steps 5
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"another elastic step of this job runs, and a job has one at a time"* ]]
  [ "$(bases_of "$A")" = "$base" ]
  wait_for 60 "A goes on" stepped_past A $(($(step_of A) + 20))
  goes_on_well
}

# bats test_tags=long:2
@test "a base that Slurm ends takes the job with it, and the job says how to go on" {
  movable 2:2
  trains
  as_user scancel "$base"
  wait_for 90 "A has ended" job_over "$A"
  cat "$BOX/home/A.out"
  grep -q "submit the job again to go on from its newest checkpoint" "$BOX/home/A.out"
  leaves_nothing 40
}

@test "SIGKILL of the launcher ends the base, also without a planner" {
  movable 2:4
  trains
  "$BOX_HERE/planner.sh" kill
  moment=$(now_us)
  kill -KILL "$(launcher_pid)"
  within 15 "$moment" "the base has ended" no_bases # ten heartbeats and 5 s
  within 15 "$moment" "nothing of it runs" eval '[ -z "$(pgrep -u boxuser)" ]'
  wait_for 40 "A has ended" job_over "$A"
  leaves_nothing 40
}

@test "a base that starts after its launcher's death ends by itself, without a planner" {
  for node in 1 2 3 4; do plain "f$node" -N1 -n1 -w "n$node" --gres=gpu:4 --mem=100; done
  movable 2:2
  wait_for 60 "the base waits" base_state PENDING
  "$BOX_HERE/planner.sh" kill
  kill -KILL "$(launcher_pid)"
  for node in 1 2 3 4; do finish "f$node"; done
  wait_for 90 "the base is gone" no_bases
  leaves_nothing 40
}

@test "the planner ends a waiting base whose submitted job has ended" {
  for node in 1 2 3 4; do plain "f$node" -N1 -n1 -w "n$node" --gres=gpu:4 --mem=100; done
  movable 2:2
  wait_for 60 "the base waits" base_state PENDING
  kill -KILL "$(launcher_pid)"
  wait_for 60 "the base is gone" no_bases
  [ "$(squeue -h -t RUNNING | wc -l)" = 4 ]
  for node in 1 2 3 4; do finish "f$node"; done
  leaves_nothing 40
}

@test "GPUs requested for a movable job itself are refused in words, by sbatch, by salloc and in a step" {
  run as_user sbatch --elastic=2:8,movable --gres=gpu:2 --wrap true
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"a movable job requests no GPUs itself, but this one requests 2"* ]]
  run as_user salloc -n1 --gres=gpu:2 srun --elastic=2:8,movable true
  echo "$output"
  [[ $output == *"a movable job requests no GPUs itself"* ]]
  run as_user salloc -n1 srun --elastic=2:8,movable --gres=gpu:1 true
  echo "$output"
  [ "$status" -ne 0 ]
  [[ $output == *"Step requested GRES but job doesn't have GRES"* || $output == *"Invalid generic resource"* ]] # 22.05, 24.11
}
