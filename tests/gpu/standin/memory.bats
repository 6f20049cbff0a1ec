#!/usr/bin/env bats
# State of one generation taken over by the next on one GPU: tests/gpu/state_memory as it runs on a card, on the stand-in.
# limit: 600

setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
  export STANDIN_DELAY=20000
  state_memory=$built/test/state_memory
}

# bats test_tags=short
@test "descriptors: adopted, without room of its own" {
  run -0 --separate-stderr "$state_memory" descriptors 100000
  [[ $output == *'"extra_memory_bytes": 0}'* ]]
}
# bats test_tags=short
@test "held: adopted after its maker's death" { "$state_memory" held 100000; }
# bats test_tags=short
@test "ipc: copied while its maker lives" {
  run -0 --separate-stderr "$state_memory" ipc 100000
  [[ $output == *'"extra_memory_bytes": 2097152}'* ]]
}
@test "300 MB by descriptors" { "$state_memory" descriptors 300000000; }
@test "300 MB held" { "$state_memory" held 300000000; }
@test "300 MB by ipc" { "$state_memory" ipc 300000000; }
@test "a GPU with room for one generation's state: by descriptors it is enough, by ipc it is not" {
  STANDIN_MEMORY=110000000 "$state_memory" descriptors 100000000
  run -1 env STANDIN_MEMORY=110000000 "$state_memory" ipc 100000000
  [[ $output == *"allocating state memory failed: out of memory"* ]]
}
