# The node of the launcher is lost, and Slurm keeps the job on its other nodes: nothing that could end it is left there but a keeper.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 900
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() {
  bring_back n1
  clean_slate
}

said() { grep -q "$1" "$BOX/home/A.out"; }
# A trains on both nodes. Its script and its launcher are on n1.
submitted_with() { # SBATCH-OPTION...
  as_user tee "$BOX/home/A.sh" > /dev/null <<S
#!/bin/bash
srun espalier-train $BOX/share/examples/gpt-tiny.toml ${tiny[*]} --steps 1000000 --metrics A.jsonl
S
  A=$(as_user sbatch --parsable --elastic=:4 -o A.out --open-mode=append -N2 --ntasks-per-node=1 --gres=gpu:2 "$@" A.sh)
  wait_for 120 "A trains" stepped_past A 10
}
# The power of n1 goes, and Slurm finds out.
n1_is_lost() {
  ip link set v1 down
  local pids
  pids=$(ip netns pids n1)
  [ -z "$pids" ] || kill -KILL $pids
  scontrol update nodename=n1 state=down reason=test
}
restarts_of() { scontrol show job "$1" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }

# bats test_tags=long:1
@test "the node of script and launcher is lost: the job is requeued" {
  submitted_with --requeue
  n1_is_lost
  wait_for 30 "Slurm has kept A on n2" eval '[ "$(squeue -h -j "$A" -o %N)" = n2 ] || job_is "$A" PENDING'
  wait_for 120 "A waits to run again" job_is "$A" PENDING
  [ "$(restarts_of "$A")" = 1 ]
  wait_for 30 "it is told" said "node n1, where the launcher ran, was lost.*: the job is requeued"
  as_user scancel "$A"
  leaves_nothing 60
}

# bats test_tags=long:3
@test "the node of script and launcher of a job that may not be requeued is lost: the job ends, and says so" {
  submitted_with --no-requeue
  n1_is_lost
  wait_for 120 "A has ended" job_over "$A"
  said "node n1, where the launcher ran, was lost.*it may not be requeued: the job ends"
  leaves_nothing 60
}

# bats test_tags=long:4
@test "the node of the launcher of srun is lost: srun ends, and says why" {
  as_user srun -J A --no-kill --elastic=:4 -N2 --ntasks-per-node=1 --gres=gpu:2 espalier-train "$BOX/share/examples/gpt-tiny.toml" \
    "${tiny[@]}" --steps 1000000 --metrics A.jsonl > "$BOX/home/A.out" 2>&1 &
  local srun=$! code=0
  wait_for 120 "A trains" stepped_past A 10
  n1_is_lost
  wait_for 120 "srun has ended" refute kill -0 "$srun"
  wait "$srun" || code=$?
  [ $code -ne 0 ]
  said "node n1, where the launcher ran, was lost.*this step ends"
  leaves_nothing 60
}
