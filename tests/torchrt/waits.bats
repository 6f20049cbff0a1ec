#!/usr/bin/env bats
# Ranks that share a processor: who waits leaves it, and never by sched_yield in a loop. Some kernels (seen with Linux 6.18) let
# processes that do so starve every other one of the machine for up to minutes.

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  cat > yields.c << 'C'
#include <stdio.h>
#include <stdlib.h>
int sched_yield(void) {
  char name[64];
  snprintf(name, sizeof name, "yields.%s", getenv("OMPI_COMM_WORLD_RANK"));
  FILE* file = fopen(name, "a"); // ranks end without destructors
  if (file) fputc('y', file), fclose(file);
  return 0;
}
C
  "${CC:-cc}" -shared -fPIC -o yields.so yields.c
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

@test "waiting ranks never yield in a loop" {
  timeout -k 5 90 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -x "LD_PRELOAD=$PWD/yields.so" \
    -np 4 "$train" small.toml --metrics four.jsonl
  [ "$(wc -l < four.jsonl)" = 12 ]
  wc -c yields.[0-9] || true
  [ "$(cat yields.[0-9] 2>/dev/null | wc -c)" -lt 100 ]
}
