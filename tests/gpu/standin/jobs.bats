#!/usr/bin/env bats
# Two Slurm jobs on one node, each confined to its GPUs: neither maps memory of the other's.
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
  # Two GPUs for each job; node a has GPUs 0 to 7 of the machine.
  as_nodes
  export STAGE_DIRECTOR_JOB_GPUS=2
  export STANDIN_DELAY=300
}

# by_job GENERATION NODE/GPU...: the GPUs of the generation's ranks. Ranks then start as the rank server of their job starts them.
by_job() {
  local generation=$1 gpu node first
  shift
  rm -f "jobs.$generation"
  for gpu in "$@"; do
    node=$(($(printf %d "'${gpu%/*}") - 97))
    first=$((${gpu#*/} / 2 * 2))
    echo "STANDIN_ALLOWED=$((8 * node + first)),$((8 * node + first + 1)) NCCL_HOSTID=${gpu%/*}-$first" >> "jobs.$generation"
  done
  cat > in_job << SH
#!/bin/bash
export \$(sed -n "\$((OMPI_COMM_WORLD_RANK + 1))p" "jobs.\${ESPALIER_GENERATION:-0}")
[ -z "\$NO_HOSTID" ] || unset NCCL_HOSTID
exec $built/test/espalier-train-standin "\$@"
SH
  chmod +x in_job
  train=./in_job
}
two_jobs() { plan 4:2@a/0 4:2@a/2; }

# bats test_tags=short
@test "a generation over two jobs of one node trains" {
  by_job 0 a/0 a/2
  by_job 1 a/0 a/2
  script "$(two_jobs)" 3 "$(two_jobs)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_adopted"] > 0 and acts[0]["bytes_sent"] == 0'
}

@test "without NCCL_HOSTID NCCL takes the other job's GPU for one it can map" {
  by_job 0 a/0 a/2
  export NO_HOSTID=1
  script "$(two_jobs)" 3 "$(two_jobs)" '{}' > script.json
  run -1 play
  [[ $output == *"unhandled cuda error"*"101"* ]]
}

@test "grow from one job to two of the node: state is sent, as between nodes" {
  by_job 0 a/0
  by_job 1 a/0 a/2
  script "$(plan 8:2@a/0)" 3 "$(two_jobs)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_sent"] > 0 and acts[0]["bytes_copied"] == 0 and acts[0]["bytes_adopted"] > 0'
}

@test "shrink from two jobs of the node to one: what leaves with the other job is given before" {
  by_job 0 a/0 a/2
  by_job 1 a/0
  script "$(two_jobs)" 3 "$(plan 8:2@a/0)" '{}' > script.json
  play
  losses_as_alone
  # The tied table is at the rank that stays already, at the other end of the model.
  acts 'acts[0]["bytes_sent"] > 0 and acts[0]["bytes_copied"] == 12 * 256 * 64'
}

@test "inside a job GPUs still reach each other's memory" {
  by_job 0 a/0 a/1
  by_job 1 a/1 a/0
  script "$(plan 4:2@a/0 4:2@a/1)" 3 "$(plan 4:2@a/1 4:2@a/0)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_copied"] > 0 and acts[0]["bytes_sent"] == 0'
}

@test "a rank of one job is lost: the other job's rank takes nothing that it cannot map" {
  by_job 0 a/0 a/2
  by_job 1 a/0 a/2
  script "$(plan 8:1@a/0,1@a/2)" 3 "$(plan 8:1@a/0,1@a/2)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_adopted"] > 0'
}

@test "a job's rank is lost and the job with it: the other job reads its snapshot, which is in the node's host memory" {
  by_job 0 a/0 a/2
  by_job 1 a/0
  script "$(two_jobs)" 12 "$(plan 8:2@a/0)" '{"kill": [1]}' > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] >= 5'
}

@test "the snapshot of a rank that both jobs of the node need reaches the second by messages" {
  by_job 0 a/0 a/2
  by_job 1 a/1 a/3
  script "$(two_jobs)" 12 "$(plan 8:1@a/1,1@a/3)" '{"kill": [0, 1], "torn": true}' > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["bytes_sent"] > 0'
}
