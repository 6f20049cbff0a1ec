#!/usr/bin/env bats
# GPUs of one node and one Slurm job that do not reach each other's memory, as on boards without NVLink or behind an IOMMU.
# limit: 1800
# each: 600

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
  munged
  as_nodes
  export STANDIN_DELAY=300 STANDIN_PEERS=none
}
two() { plan 4:2@a/0 4:2@a/1; }
four() { plan 2:2@a/0 2:2@a/1 2:2@a/2 2:2@a/3; }

# bats test_tags=short
@test "no GPU reaches another: what changes its GPU is sent, as between nodes" {
  script "$(two)" 3 "$(four)" '{}' 8 "$(two)" '{}' > script.json
  play
  losses_as_alone
  acts 'len(acts) == 2 and all(act["bytes_adopted"] > 0 and act["bytes_copied"] == 0 and act["bytes_sent"] > 0 for act in acts)'
}

@test "GPUs reach each other in pairs: copied within a pair, sent between pairs" {
  export STANDIN_PEERS=2
  script "$(two)" 3 "$(four)" '{}' 8 "$(plan 4:2@a/1 4:2@a/0)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_sent"] > 0 and acts[1]["bytes_copied"] > 0 and acts[1]["bytes_sent"] > 0'
}

@test "without descriptors: what changes its GPU is sent" {
  export STANDIN_DESCRIPTORS=0
  script "$(two)" 3 "$(four)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_copied"] > 0 and acts[0]["bytes_sent"] > 0'
}

@test "a rank is lost: each GPU takes what lies on it, and the rest is sent" {
  local replicas
  replicas=$(plan 8:1@a/0,1@a/1)
  script "$replicas" 3 "$(plan 8:1@a/0,1@a/2)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_adopted"] > 0 and acts[0]["bytes_sent"] > 0'
}

@test "GPUs of a TP group do not reach each other: plans change, and a lost rank's state is found" {
  script "$(plan 8:2@a/0+1)" 3 "$(plan 8:1@a/0+1,1@a/2+3)" '{}' 8 "$(plan 8:1@a/0+1,1@a/4+5)" '{"kill": [3]}' > script.json
  play
  losses_as_alone 5e-2 10 # TP sums in another order
  # A rank with both ends of the model gets the tied table once, and copies it to the other end.
  acts 'all(act["bytes_adopted"] > 0 and act["bytes_copied"] == 12 * 256 * 64 and act["bytes_sent"] > 0 for act in acts)'
  acts 'len(acts) == 2 and acts[1]["from"] == "generation"'
}

@test "all GPUs change: state that nobody reaches on a GPU comes from snapshots in the node's memory" {
  script "$(two)" 12 "$(plan 4:2@a/2 4:2@a/3)" '{"kill": [0, 1]}' > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] >= 5'
}

@test "under a real launcher in a box: a job's plans change, and no hand-off is given up" {
  [ "$(id -u)" = 0 ] || skip "a box needs root"
  run -0 env -u LD_LIBRARY_PATH BUILD="$built" "$root/tests/cluster/box.sh" -n 1 -g 2 -k "$BATS_FILE_TMPDIR/box" -e 'planner.plan_trials = 3' \
    -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' "$root/tests/gpu/standin/apart.sh" "$train" "$LD_LIBRARY_PATH"
  echo "$output"
  [[ $output == *"committed at step"* ]]
  [[ $output != *"peer access"* ]]
  [[ $output == *", and got "[1-9]*" from other nodes"* ]]
}
