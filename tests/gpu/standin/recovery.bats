#!/usr/bin/env bats
# GPUs, ranks and nodes that are lost: what the vaults hold of GPU memory is adopted, copies in host memory are brought back.
# limit: 2400
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
  export STANDIN_DELAY=300
}
two() { plan 4:2@a/0 4:2@a/1; }
replicas() { plan 8:1@a/0,1@b/0; }

# bats test_tags=short
@test "a killed rank's state outlives it: all of it is adopted, no step is lost" {
  script "$(two)" 3 "$(two)" '{"kill": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0 and acts[0]["bytes_adopted"] > 0'
}
@test "a rank that dies while it changes its state: its replica's is taken" {
  script "$(replicas)" 3 "$(replicas)" '{"kill": [0], "torn": true}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_sent"] > 0'
}
@test "a node is lost: the replicas on the others go on" {
  script "$(plan 4:1@a/0,1@b/0 4:1@a/1,1@b/1)" 3 "$(plan 4:2@a/0 4:2@a/1)" '{"lose": ["b"]}' > script.json
  play
  losses_as_alone
}
@test "an extension is gone, and with it a TP group: the other group's state is taken" {
  script "$(plan 8:1@a/0+1,1@b/0+1)" 3 "$(plan 8:2@a/0+1)" '{"lose": ["b"]}' > script.json
  play
  losses_as_alone 5e-2 10 # TP sums in another order
  acts 'acts[0]["from"] == "generation" and acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0 and acts[0]["bytes_adopted"] > 0'
}
@test "a rank that only stands still is ended by its node's vault" {
  script "$(two)" 3 "$(two)" '{"stop": [1]}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["living"] == 0'
}
@test "snapshots in host memory of another node" {
  script "$(plan 4:2@a/0 4:2@b/0)" 12 "$(two)" '{"lose": ["b"]}' > script.json
  play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] >= 5'
}
# Training takes some 40 MB of a GPU. A copy of the state on the GPU, or the lost state beside the new one, would not fit.
@test "snapshots are brought back where a GPU has room for the state once" {
  script "$(plan 4:2@a/0 4:2@b/0)" 12 "$(two)" '{"lose": ["b"]}' > script.json
  STANDIN_MEMORY=42000000 STANDIN_CONTEXT=4000000 STANDIN_COMM=1000000 play --set recovery.snapshot_steps=5
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] >= 5'
}
@test "while a vault does not answer, the state that the others hold stays for the next attempt, and for that one only" {
  script "$(plan 4:2@a/0 4:2@b/0)" 3 "$(two)" '{"lose": ["b"], "silent": true, "abort": "ready"}' 3 "$(two)" '{"silent": true}' \
    > script.json
  play
  losses_as_alone
  acts 'acts[0]["state_left"] > 0 and acts[1]["state_left"] == 0 and acts[1]["from"] == "start"'
}
@test "a GPU's memory that the driver gave up with its last process: the snapshot is next, and what to do is said" {
  export STANDIN_PERSISTENCE=0
  script "$(two)" 12 "$(two)" '{"kill": [0, 1]}' > script.json
  play --set recovery.snapshot_steps=5 > play.log 2>&1 || { cat play.log; return 1; }
  losses_as_alone
  acts 'acts[0]["from"] == "snapshot" and acts[0]["step"] >= 5'
  grep -q "the GPU memory that old rank 0 left is lost: .*nvidia-smi -pm 1" play.log
}
@test "without replicas or snapshots: the newest checkpoint" {
  rm -rf saved
  script "$(plan 4:2@a/0 4:2@b/0)" 12 "$(two)" '{"lose": ["b"]}' > script.json
  play --set checkpoint.directory=saved --set checkpoint.every=5
  losses_as_alone
  acts 'acts[0]["from"] == "checkpoint"'
}
@test "ZeRO-1: all parts outlive their ranks" {
  script "$(replicas)" 3 "$(replicas)" '{"kill": [0]}' > script.json
  play --set training.zero1=true
  losses_as_alone
}

# ---- A GPU that fails while it trains. Its rank ends, what is left is taken over.
fails() { # FAULTS [WHAT THE FAILED RANK SAYS]
  export STANDIN_FAULTS=$1
  script "$(replicas)" 2 "$(replicas)" '{"dies": true}' > script.json
  play > play.log 2>&1 || { cat play.log; return 1; }
  losses_as_alone
  acts 'acts[0]["from"] in ("generation", "start")'
  [ $# -lt 2 ] || grep -q "$2" play.log || { grep "rank .*: " play.log; return 1; }
}
# bats test_tags=short
@test "ECC error in a kernel: the rank is lost, its replica's state is taken" { fails "g0r1:torch@900=214" "rank 1: .*failed"; }
@test "ECC error of which cuBLAS says only that a product failed" { fails "g0r1:torch@900=-3" "rank 1: .*EXECUTION_FAILED.*ECC"; }
@test "illegal access in a kernel" { fails "g0r0:torch@900=700" "rank 0: .*failed"; }
@test "ECC error seen by an event" { fails "g0r1:cudaEventQuery@400=214" "rank 1: .*ECC"; }
@test "ECC error that the profile's timeline meets" { fails "g0r1:cudaEventRecord@60=214" "rank 1: .*ECC"; }
@test "NVLink error in a copy" { fails "g0r1:cudaDeviceSynchronize@60=220" "rank 1: CUDA"; }
@test "NCCL hits a broken GPU: that rank itself is the lost one" { fails "g0r1:nccl_operation@40=1700" "rank 1: .*\(NCCL\|illegal memory access\)"; }
