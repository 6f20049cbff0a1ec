# A model that is divided by fully_shard() (FSDP2): jobs grow, shrink and lose a worker. Each new process reads its part of the state from
# the old ones. No step is missing, each sample is used once, and the losses are those of one process.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# limit: 3000
# each: 900
# beside

setup_file() {
  . "$BOX_HERE/pytorch.bash"
  set_up_python
  script_options=(--kind fsdp)
  python_reference 3000
}
setup() {
  . "$BOX_HERE/pytorch.bash"
  script_options=(--kind fsdp)
}
teardown() {
  ip link set v2 up
  clean_slate
}

# The state of the tests' model: 2177 parameters of 8 bytes with two moments of the same size, and a few scalars.
state_bytes=$((2177 * 8 * 3))
# bytes GENERATION copied|got: what all its processes together have read on their nodes, or from other ones.
bytes() {
  wait_for 20 "generation $1 tells what it has read" grep -q "generation $1 has adopted " "$BOX/home/A.out"
  sed -nE "s/.*generation $1 has adopted .* copied ([0-9]+), and got ([0-9]+) from other nodes.*/copied \1 got \2/p" "$BOX/home/A.out" | grep -oP "$2 \K[0-9]+"
}
about_the_state() { [ "$1" -ge $state_bytes ] && [ "$1" -lt $((state_bytes + 2000)) ]; } # and what all have whole

@test "FSDP2: it grows and shrinks, and each process reads what it needs of the state and no more" {
  python_cast 2:4
  python_grows_and_shrinks
  about_the_state "$(bytes 1 copied)"
  handed_off
  about_the_state "$(bytes 2 copied)"
  python_goes_on_well
}

# Three ranks hold a third each, five a fifth: a rank that stays keeps a whole fifth only as rank 0, 2 or 4.
# bats test_tags=long:5
@test "FSDP2: from 3 to 5 GPUs, the ranks that stay are where they keep most of their part" {
  rm -rf "$BOX"/home/{A,near,far}.*
  near=$(plain near -N1 -n1 -w n1 --gres=gpu:1)
  far=$(plain far -N1 -n1 -w n2 --gres=gpu:4)
  A=$(pytorch A 3:5 -N1 -n1 -w n1 --gres=gpu:3 -- --steps 100000 --pause 1.5)
  wait_for 300 "A trains" stepped_past A 10
  wait_for 60 "A is held" espalier hold "$A"
  finish near
  finish far
  wait_for 60 "the fillers end" eval '[ -z "$(squeue -h -n near,far)" ]'
  wait_for 60 "A may grow" espalier release "$A"
  wait_for 300 "A runs on 5 GPUs" runs_on A 5
  gpus_of_generation() { sed -nE "s/.*generation $1[, ].* layers \| //p" "$BOX/home/A.out" | head -n 1; }
  read -ra three <<< "$(gpus_of_generation 0)"
  read -ra five <<< "$(gpus_of_generation 1)"
  echo "# ${three[*]} -> ${five[*]}" >&3
  [ "${five[0]} ${five[2]} ${five[4]}" = "${three[*]}" ]
  about_the_state $(($(bytes 1 copied) + $(bytes 1 got)))
  python_goes_on_well
}

# bats test_tags=long:6
@test "FSDP2: it grows to another node, and leaves it again" {
  python_cast 2:6
  finish far
  wait_for 300 "A runs on n2 too" runs_on A 6
  about_the_state $(($(bytes 1 copied) + $(bytes 1 got)))
  [ "$(bytes 1 got)" -gt $((state_bytes / 2)) ]
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  wait_for 20 "what it was lent is asked back" as_user espalier reclaim "$A"
  wait_for 300 "A runs on 2 GPUs" runs_on A 2
  about_the_state $(($(bytes 2 copied) + $(bytes 2 got)))
  [ "$(bytes 2 got)" -gt $((state_bytes / 2)) ]
  python_goes_on_well
}

# bats test_tags=long:1
@test "FSDP2: a node is lost, and the training goes on from copies of its parts on the other one" {
  python_cast 2:6
  finish far
  wait_for 300 "A runs on n2 too" runs_on A 6
  python_loses_n2
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  grep 'training went on' "$BOX/home/A.out" | sed 's/^/# /' >&3
  python_goes_on_well
}

# bats test_tags=long:2
@test "FSDP2: a worker is killed, and the training goes on from the parts that all have in memory" {
  python_cast 2:2
  wait_for 60 "it has trained for some snapshots" stepped_past A $(($(step_of A) + 40))
  kill -KILL "$(processes python3 ESPALIER_GENERATION=0 | head -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt 0 ]'
  wait_for 30 "it is told how" grep -q 'training went on with snapshots kept elsewhere' "$BOX/home/A.out"
  python_goes_on_well
}

# bats test_tags=long:6
@test "FSDP2: a model that changes between generations ends the change in words, and the training goes on" {
  python_cast 2:4 --other-model 8
  finish near
  wait_for 200 "it is told" grep -q 'model.0.weight: it was of shape (64, 32), and is of (72, 32) here' "$BOX/home/A.out"
  as_user espalier hold "$A"
  runs_on A 2
  python_goes_on_well
}
