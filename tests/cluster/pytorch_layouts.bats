# A script that runs several layouts of a replica (parallel=[...]): the number of processes of a replica changes from generation to
# generation. Its global batch of two samples allows two replicas, so four GPUs need larger ones. No step is missing, each sample is
# used once, and the losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 3000
# each: 900
# beside

options=(--kind blocks --batch 2 --width 16 --layouts)
setup_file() {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
  script_options=("${options[@]}" pp=1+tp=1)
  python_reference 700
}
setup() {
  . "$BOX_HERE/pytorch.bash"
  layouts() { grep -o '"plan":"[^"]*' "$BOX/home/A.jsonl" | cut -d'"' -f4 | uniq | tr '\n' '/'; } # in turn
  same_as_alone() { python3 "$BOX/share/python/losses.py" "$BOX/home/$1.jsonl" "$BOX/share/python-reference.jsonl" 2; }
  tell() {
    echo "# $(layouts)" >&3
    grep 'grow committed\|shrink committed\|paused\|has adopted\|training went on' "$BOX/home/A.out" | sed 's/^/# /' >&3
  }
}
teardown() {
  ip link set v2 up
  clean_slate
}
one_each='dp 2 x pp 1 x tp 1/'

# bats test_tags=long:6
@test "layouts: two replicas of one process become two of two stages, and are asked back" {
  script_options=("${options[@]}" pp=1+tp=1,pp=2)
  python_cast 2:4
  finish near
  wait_for 450 "A runs on 4 GPUs" runs_on A 4
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  wait_for 20 "what it was lent is asked back" as_user espalier reclaim "$A"
  wait_for 300 "A runs on 2 GPUs" runs_on A 2
  tell
  # On two GPUs again: two replicas, or one of two stages where these promise more.
  [[ "$(layouts)" == "${one_each}dp 2 x pp 2 x tp 1/dp "[12]" x pp "* ]]
  refute grep 'training went on with' "$BOX/home/A.out"
  python_goes_on_well
}

# The smaller generation may start too slowly for the grace that Slurm gives. Then the job goes on with a snapshot.
# bats test_tags=long:5
@test "layouts: another job takes the GPUs of an extension on the job's own node" {
  script_options=("${options[@]}" pp=1+tp=1,pp=2)
  python_cast 2:4
  python_grows_and_shrinks
  tell
  [ "$(layouts)" = "${one_each}dp 2 x pp 2 x tp 1/$one_each" ]
  refute grep 'training went on with the initial weights' "$BOX/home/A.out"
  python_goes_on_well
}

# bats test_tags=long:4
@test "layouts, as torchtitan trains: it divides its loss by the global batch itself, in micro-batches; replicas of one grow to replicas of two and shrink" {
  script_options=("${options[@]}" pp=1+tp=1,tp=2 --tokens 1)
  python_cast 2:4
  python_grows_and_shrinks
  tell
  [ "$(layouts)" = "${one_each}dp 2 x tp 2 x pp 1/$one_each" ]
  refute grep 'training went on with the initial weights' "$BOX/home/A.out"
  python_goes_on_well
}

# bats test_tags=long:3
@test "layouts: a node is lost, and replicas of two go on as replicas of one, from copies on the other node" {
  script_options=("${options[@]}" pp=1+tp=1,tp=2)
  python_cast 2:4
  finish far
  wait_for 300 "A runs on n2 too" runs_on A 4
  python_loses_n2
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  tell
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  [ "$(layouts)" = "${one_each}dp 2 x tp 2 x pp 1/$one_each" ]
  python_goes_on_well
}
