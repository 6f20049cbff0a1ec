#!/usr/bin/env bats
# The stand-ins themselves.
# limit: 600

setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  ready
}
# The case of this name; a comma would end it.
one() {
  run -0 "$built/test/standin/semantics" --no-version -tc="${BATS_TEST_DESCRIPTION//,/*}"
  [[ $output == *"test cases: 1 | 1 passed"* ]]
}

# bats test_tags=short
@test "a copy on a stream is not done before it was waited for" { one; }
@test "cudaMemcpy inside a GPU returns before it is done; to the host it does not" { one; }
@test "streams keep their order, and an event orders two of them" { one; }
@test "the default stream waits for blocking streams and they for it, not for others" { one; }
@test "virtual memory: granularity, one mapping, and no access before it is given" { one; }
# bats test_tags=short
@test "using memory without access breaks the context for good" { one; }
@test "choosing a GPU makes the context there" { one; }
@test "a context does not survive a fork" { one; }
@test "memory is full, for all processes together, and free again when they are killed" { one; }
# bats test_tags=short
@test "a GPU of another Slurm job cannot be imported: 101" { one; }
@test "memory of a GPU without peer access can be imported but not opened" { one; }
@test "an IPC handle names a whole block, and ends with its maker" { one; }
@test "GPUs are counted as CUDA counts them, and told apart by their bus ids" { one; }
@test "errors come at the call and count that were asked for" { one; }
@test "an error is remembered until it is asked for; once it was thrown it is not left for the next call" { one; }
# bats test_tags=short
@test "a send ends only when its receive is there" { one; }
@test "a call before the last one is settled is refused" { one; }
@test "memory that is not the GPU's is refused" { one; }
@test "sums and gathers, and groups of messages that cross" { one; }
@test "an abort ends what waits for a peer" { one; }
@test "a peer that ends is a remote error, and the stream stands until the abort" { one; }
@test "a split makes communicators by color, ranks by key" { one; }
@test "two ranks on one GPU are refused" { one; }
@test "GPUs of one host that cannot see each other fail, unless host ids tell them apart" { one; }
