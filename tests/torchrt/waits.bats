#!/usr/bin/env bats
# Ranks that share a processor: who waits leaves it, and never by sched_yield in a loop. Some kernels (seen with Linux 6.18) let
# processes that do so starve every other one of the machine for up to minutes.
# limit: 1200
# each: 400

setup_file() {
  source "$BATS_TEST_DIRNAME/common.bash"
  write_inputs
  cat > yields.c << 'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
int sched_yield(void) {
  char name[64];
  snprintf(name, sizeof name, "yields.%s", getenv("OMPI_COMM_WORLD_RANK"));
  FILE* file = fopen(name, "a"); // ranks end without destructors
  if (file) fputc('y', file), fclose(file);
  return 0;
}
long syscall(long number, ...) {
  static long (*next)(long, ...);
  if (number == SYS_sched_yield) return sched_yield();
  if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
C
  "${CC:-cc}" -shared -fPIC -o yields.so yields.c -ldl
}
setup() {
  source "$BATS_TEST_DIRNAME/common.bash"
  prepare
}

@test "waiting ranks never yield in a loop" {
  timeout -k 5 300 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -x "LD_PRELOAD=$PWD/yields.so" \
    -np 4 "$train" small.toml --metrics four.jsonl
  [ "$(wc -l < four.jsonl)" = 12 ]
  wc -c yields.[0-9] || true
  [ "$(cat yields.[0-9] 2>/dev/null | wc -c)" -lt 100 ]
}
