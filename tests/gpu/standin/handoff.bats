#!/usr/bin/env bats
# Generations of the CUDA flavour that replace each other: by descriptors, by CUDA IPC, over NCCL. A director plays the launcher.
# Nodes are GPUs that cannot reach each other's memory.
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

one() { plan 8:2@a/0; }
two() { plan 4:2@a/0 4:2@a/1; }
four() { plan 2:2@a/0 2:2@a/1 2:2@b/0 2:2@b/1; }

# bats test_tags=short
@test "grow to another node and shrink back: every step once, losses equal bit for bit" {
  script "$(two)" 3 "$(four)" '{}' 8 "$(two)" '{}' > script.json
  play
  losses_as_alone
  # A GPU's memory stays on it: adopted there, copied by its neighbours, sent to other nodes.
  acts 'len(acts) == 2 and all(act["bytes_adopted"] > 0 and act["bytes_copied"] > 0 and act["bytes_sent"] > 0 for act in acts)'
}

# Other shares make other pairs of ranks send to each other, which NCCL has to connect.
@test "a plan for which no state moves is taken in place: losses equal bit for bit, and the next generation adopts" {
  local first other
  first=$(plan 3:1@a/0,1@a/1 5:1@b/0,1@b/1)
  other=$(in_order "$first" 2 1f1b 3+1 1+3)
  script "$first" 3 "$other" '{"in_place": true}' 8 "$first" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["in_place"] and acts[0]["generation"] == 0 and acts[1]["generation"] == 1 and acts[1]["bytes_adopted"] > 0'
}

@test "two generations on one GPU: all is adopted" {
  script "$(one)" 3 "$(one)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["bytes_adopted"] > 0 and acts[0]["bytes_copied"] == acts[0]["bytes_sent"] == 0'
}

@test "without descriptors: state is copied by CUDA IPC" {
  export STANDIN_DESCRIPTORS=0
  script "$(two)" 3 "$(four)" '{}' 8 "$(two)" '{}' > script.json
  play
  losses_as_alone
  acts 'len(acts) == 2 and all(act["bytes_adopted"] == 0 and act["bytes_copied"] > 0 for act in acts)'
  [ "$(counted cudaIpcOpenMemHandle)" -gt 0 ]
  [ "$(counted cuMemCreate)" = 0 ]
}

@test "handoff.method = device: copied, not adopted" {
  script "$(two)" 3 "$(two)" '{}' > script.json
  play --set handoff.method=device
  losses_as_alone
  acts 'acts[0]["bytes_adopted"] == 0 and acts[0]["bytes_copied"] > 0'
}

@test "handoff.method = checkpoint: by the disk" {
  rm -rf saved
  script "$(two)" 3 "$(four)" '{}' > script.json
  play --set 'handoff.method="checkpoint"' --set checkpoint.directory=saved
  losses_as_alone
}

@test "migrate to another node, through the one both plans share" {
  script "$(plan 4:2@a/0 4:2@b/0)" 3 "$(plan 4:2@a/0 4:2@c/0)" '{}' 8 "$(plan 1:2@c/1 7:2@d/0)" '{}' > script.json
  play
  losses_as_alone
}

@test "layers change their TP degree: sent, copied, cut anew" {
  script "$(two)" 3 "$(plan 8:2@a/0+1)" '{}' 8 "$(plan 4:2@b/0+1 4:2@a/0)" '{}' > script.json
  play
  losses_as_alone 5e-2 10
}

@test "ZeRO-1 and replicas: the optimizer's parts are cut anew" {
  script "$(plan 8:1@a/0,1@b/0)" 3 "$(plan 4:1@a/0,1@b/0 4:2@c/0)" '{}' 8 "$(plan 8:2@b/0)" '{}' > script.json
  play --set training.zero1=true
  losses_as_alone
}

@test "state is sent early, while the old generation trains" {
  script "$(two)" 2 "$(four)" '{"early": 5, "late_ms": 0}' 5 "$(two)" '{"early": 5}' > script.json
  play
  losses_as_alone
}

@test "a generation given up in any state costs nothing, and the next one succeeds" {
  local acts=() state
  for state in ready switch standing switched loaded; do acts+=(2 "$(two)" "{\"abort\": \"$state\"}"); done
  script "$(four)" "${acts[@]}" 2 "$(two)" '{}' > script.json
  play
  losses_as_alone
}

# ---- A new generation that runs out of memory, in each state.
starves() { # FAULTS: of the new generation; the old one trains on, and the one after succeeds
  export STANDIN_FAULTS=$1
  script "$(two)" 3 "$(four)" '{"abort": "fails"}' 8 "$(four)" '{}' > script.json
  play
  losses_as_alone
  acts 'acts[0]["memory"] and any(words in acts[0]["message"] for words in ("out of memory", "ALLOC_FAILED", "Failed to CUDA"))'
}
@test "no memory: while the GPU starts" { starves "g1r1:cudaFree@1=2"; }
@test "no memory: for the state" { starves "g1r2:cuMemCreate@1=2"; }
@test "no memory: while it maps the old state" { starves "g1r0:cuMemImportFromShareableHandle@2=2"; }
@test "no memory: for its gradients" { starves "g1r3:cuMemCreate@5=2"; }
# bats test_tags=short
@test "no memory: torch's tensors in the rehearsal" { starves "g1r1:torch@60=2"; }
@test "no memory: for cuBLAS, as torch says it" { starves "g1r1:torch@60=-2"; }
@test "no memory: for NCCL, which says only what it wanted" { starves "g1r1:nccl_memory@1=2"; }
@test "no memory: an old rank cannot give its state, stays and trains on" {
  export STANDIN_FAULTS="g0r2:cuMemImportFromShareableHandle@1+=2,g0r2:cuMemCreate@12+=2"
  script "$(four)" 3 "$(two)" '{"abort": "starved"}' 8 "$(four)" '{"abort": "ready"}' > script.json
  play
  losses_as_alone
}

@test "GPUs with room for two generations that share their state, not for two of their own" {
  # 8 units of 64 x 64: each is rounded to 2 MiB, a rank's torch takes less than 8.
  script "$(one)" 3 "$(one)" '{}' > script.json
  STANDIN_MEMORY=100000000 STANDIN_CONTEXT=4000000 STANDIN_COMM=1000000 play
  losses_as_alone
}
