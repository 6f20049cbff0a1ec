/* probe FOLDER [spin]: an MPI program that writes down when MPI_Init was done, in nanoseconds since the epoch, into
 * FOLDER/RANK. With `spin` it then does steps of 5 ms of work and 5 ms of rest until FOLDER/stop is there, and writes a
 * line "START-NS DURATION-NS" for each step into FOLDER/steps.RANK. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void spin(const char* folder, int rank) {
  char path[4096], stop[4096];
  snprintf(path, sizeof path, "%s/steps.%d", folder, rank);
  snprintf(stop, sizeof stop, "%s/stop", folder);
  FILE* file = fopen(path, "w");
  if (file == NULL) return;
  for (int over = 0; !over;) {
    const long long start = now();
    volatile double sum = 0;
    for (int i = 0; i < 1000000; ++i) sum += i * 0.5;
    over = access(stop, F_OK) == 0;
    MPI_Allreduce(MPI_IN_PLACE, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    fprintf(file, "%lld %lld\n", start, now() - start);
    usleep(5000);
  }
  fclose(file);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  MPI_Init(&argc, &argv);
  const long long done = now();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", argv[1], rank);
  FILE* file = fopen(path, "w");
  if (file == NULL) return 1;
  fprintf(file, "%lld\n", done);
  fclose(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 2 && strcmp(argv[2], "spin") == 0) spin(argv[1], rank);
  MPI_Finalize();
  return 0;
}
