# Nodes with GPUs of several types, and requests for parts of GPUs.
# box: -n 2 -t a100:2,h100:4 -c GresTypes=gpu,mps,shard -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"'
# limit: 600
# each: 300
# beside

setup_file() { . "$BOX_HERE/training.bash"; reference; }
setup() { . "$BOX_HERE/training.bash"; }
teardown() { clean_slate; }

@test "of a node with GPUs of two types one type is lent, as many as are idle, and asked for by its name" {
  A=$(elastic A 2:10 -N1 -n1 -w n1 --gres=gpu:h100:3 -- "${tiny[@]}" --steps 1000000)
  # One more of n1 is idle, and four of n2. With all of them each GPU has one of the eight sequences.
  wait_for 120 "A runs on all" runs_on A 8
  for id in $(extensions_of "$A"); do scontrol -o show job "$id"; done | tee "$BOX/home/extensions"
  refute grep -vE ' (TresPerNode|TRESPerNode)=gres[:/]gpu:h100[:=][1-4]( |$)' "$BOX/home/extensions"
  # Of each node 0 and 1 are the a100.
  refute grep -qE 'n[12]/[01]( |$)' "$BOX/home/A.out"
  refute grep -q 'not granted\|got other GPUs' "$BOX/home/A.out"
  goes_on_well
}

@test "the base of a movable job gets one type of GPUs where nodes have two, the one that it may have" {
  base_of() { squeue -h -n "base-$A" -t RUNNING -o %i; }
  for types in "" ,types=h100; do
    rm -f "$BOX"/home/A.*
    A=$(elastic A "2:2,movable$types" -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
    wait_for 120 "A trains" stepped_past A 10
    scontrol -o show job "$(base_of)" | tee "$BOX/home/base"
    grep -qE ' (TresPerNode|TRESPerNode)=gres[:/]gpu:h100[:=]2( |$)' "$BOX/home/base"
    as_user scancel "$A"
    wait_for 40 "the queue is empty" eval '[ -z "$(squeue -h)" ]'
  done
  A=$(elastic A 2:2,movable,types=a100 -n1 --mem=500 -- "${tiny[@]}" --steps 1000000)
  wait_for 60 "A ends" job_over "$A" # a100 is not lent on these nodes
  grep -q 'its partition has no nodes for 2 GPUs of type a100' "$BOX/home/A.out"
}

@test "shards, MPS shares and MIG slices are refused in words" {
  refused() { # REQUEST WORDS
    run as_user sbatch --elastic=1:2 --gres="$1" --wrap true
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"$2; ask for whole GPUs, as in --gpus=2"* ]]
  }
  refused gpu:1g.10gb:1 'MIG slices are parts of GPUs'
  refused gpu:a100_3g.20gb:2 'MIG slices are parts of GPUs'
  refused shard:2 'shards are parts of GPUs'
  refused mps:50 'MPS shares are parts of GPUs'
}
