/* A data-parallel training in C that is elastic by libespalier-worker: linear regression by gradient descent, with MPI
 * for the sum of gradients.
 *
 *     mpicc -I PREFIX/include worker.c -o worker -L PREFIX/lib -lespalier-worker -lm
 *     srun --elastic=2:8 --gpus=2 ./worker [--steps N] [--pause SECONDS] [--checkpoint FILE] [--units N[,N]]
 *       [--evaluate STEPS]
 *
 * With --units the processes of a replica divide its samples among themselves, as those of a script with its own tensor
 * parallelism divide its tensors: N of them at first, and any other N that is named where that suits the GPUs. Its
 * losses are those of one process but for rounding. Process 0 prints them. Each step is measured, so that the planner
 * may give the job more GPUs. With --evaluate process 0 computes the loss of other samples after so many steps each. */
#define _GNU_SOURCE
#include <errno.h>
#include <espalier/worker.h>
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 64, BATCH = 48 };

struct state { /* what a hand-off moves, and what a checkpoint holds */
  int64_t step;
  double weights[WIDTH];
};

static struct espalier_worker* worker;
static double pause_seconds = 0.02;
static const char* checkpoint;

/* The last words of this process. MPI_Abort would end processes that the launcher still needs. */
static void fail(const char* message) {
  fprintf(stderr, "worker: %s\n", message);
  espalier_fail(worker, message, 0);
  _exit(1);
}

static void leave(int number) {
  (void)number;
  _exit(0);
}

/* A call of the library: its result, unless it failed or the launcher said `exit`. */
static int call(int result) {
  if (result == ESPALIER_LEAVE) {
    fflush(stdout);
    signal(SIGALRM, leave); /* others may be gone, and MPI_Finalize waits for them: two seconds at most */
    alarm(2);
    MPI_Finalize();
    exit(0);
  }
  if (result == ESPALIER_FAILED) fail(espalier_error(worker));
  return result;
}

/* Sample `number` of the data: the same on every process and in every generation. */
static double sample(int64_t number, double* x) {
  uint64_t seed = (uint64_t)number * 0x9E3779B97F4A7C15u + 1;
  double y = 0;
  for (int i = 0; i < WIDTH; ++i) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    x[i] = (double)(seed >> 11) / 9007199254740992.0 - 0.5;
    y += x[i] * (i % 7 - 3);
  }
  return y;
}

/* For the library, and for nothing else. */
static int sum_over_all(double* values, int count, void* context) {
  (void)context;
  return MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS;
}

/* A device whose time is that of its samples. */
static void nap(double seconds) {
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

/* One step on `count` samples from `first` on, and on those of the other processes. Returns the mean loss. */
static double train(struct state* state, int64_t first, int count, int* stand) {
  double sum[WIDTH + 2] = {0}, x[WIDTH]; /* gradient, loss, how many processes were asked to stand */
  for (int64_t number = first; number < first + count; ++number) {
    double error = -sample(number, x);
    for (int i = 0; i < WIDTH; ++i) error += x[i] * state->weights[i];
    for (int i = 0; i < WIDTH; ++i) sum[i] += 2 * error * x[i] / BATCH;
    sum[WIDTH] += error * error / BATCH;
  }
  nap(pause_seconds * count / BATCH);
  espalier_computed(worker);
  sum[WIDTH + 1] = call(espalier_switch_wanted(worker));
  MPI_Allreduce(MPI_IN_PLACE, sum, WIDTH + 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  espalier_summed(worker);
  for (int i = 0; i < WIDTH; ++i) state->weights[i] -= 0.3 * sum[i];
  ++state->step;
  *stand = sum[WIDTH + 1] > 0;
  return sum[WIDTH];
}

/* The mean loss of samples that are never trained on. It may take longer than a step is waited for, so the launcher
 * hears after each batch that the job gets on. */
static double evaluate(const struct state* state) {
  enum { BATCHES = 4 };
  double x[WIDTH], loss = 0;
  for (int batch = 0; batch < BATCHES; ++batch) {
    for (int64_t number = 1; number <= BATCH; ++number) {
      double error = -sample(-batch * BATCH - number, x);
      for (int i = 0; i < WIDTH; ++i) error += x[i] * state->weights[i];
      loss += error * error / (BATCHES * BATCH);
    }
    nap(pause_seconds);
    espalier_progress(worker);
  }
  return loss;
}

static void save(const struct state* state) {
  char part[4096];
  snprintf(part, sizeof part, "%s.part", checkpoint);
  FILE* file = fopen(part, "wb");
  if (file == NULL || fwrite(state, sizeof *state, 1, file) != 1 || fclose(file) != 0 || rename(part, checkpoint) != 0)
    fprintf(stderr, "worker: %s: %s\n", checkpoint, strerror(errno));
}

static const char* load(struct state* state) {
  FILE* file = checkpoint != NULL ? fopen(checkpoint, "rb") : NULL;
  if (file == NULL) return "start";
  if (fread(state, sizeof *state, 1, file) != 1) fail("the checkpoint is too short");
  fclose(file);
  return "checkpoint";
}

/* The state of the generation before: every process of it has the same. Processes on nodes that it did not run on get
 * it from another one. */
static void take(struct state* state, int64_t step) {
  int rank, size, from, got = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int old = 0; old < espalier_old_size(worker) && !got; ++old) {
    int fd;
    uint64_t bytes;
    if (espalier_take(worker, old, step, &fd, &bytes) != ESPALIER_OK) continue;
    if (bytes != sizeof *state || pread(fd, state, bytes, 0) != (ssize_t)bytes)
      fail("the old state is of another size");
    close(fd);
    got = 1;
  }
  from = got ? rank : size;
  MPI_Allreduce(MPI_IN_PLACE, &from, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (from == size) fail(espalier_error(worker));
  MPI_Bcast(state, sizeof *state, MPI_BYTE, from, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  struct espalier_program program = {
      .size = sizeof program, .global_batch = BATCH, .total_steps = 100000, .name = "espalier example worker.c"};
  int units[16];
  int64_t evaluate_every = 0; /* steps; 0: never */
  program.units = units;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--steps") == 0) program.total_steps = atoll(argv[i + 1]);
    else if (strcmp(argv[i], "--pause") == 0) pause_seconds = atof(argv[i + 1]);
    else if (strcmp(argv[i], "--checkpoint") == 0) checkpoint = argv[i + 1];
    else if (strcmp(argv[i], "--evaluate") == 0) evaluate_every = atoll(argv[i + 1]);
    else if (strcmp(argv[i], "--units") == 0)
      for (char* text = strtok(argv[i + 1], ","); text != NULL && program.unit_count < 16; text = strtok(NULL, ","))
        units[program.unit_count++] = atoi(text);
    else return fprintf(stderr, "worker: %s: unknown option\n", argv[i]), 2;
  }
  worker = espalier_join(&program);
  if (worker == NULL) return fprintf(stderr, "worker: %s\n", espalier_error(NULL)), 1;
  MPI_Init(&argc, &argv);

  struct state state = {0};
  const struct espalier_profile profile = {.size = sizeof profile,
                                           .gradient_bytes = sizeof state.weights,
                                           .weight_bytes = sizeof state.weights,
                                           .state_bytes = sizeof state,
                                           .sum = sum_over_all};
  call(espalier_measure(worker, &profile));
  int64_t step;
  int memory = memfd_create("worker-state", MFD_CLOEXEC), stand = 0;
  if (memory < 0 || ftruncate(memory, sizeof state) != 0) fail(strerror(errno));
  if (!espalier_takes(worker)) load(&state);
  call(espalier_start(worker, &step));
  if (espalier_takes(worker)) {
    const char* from = NULL;
    if (espalier_recovers(worker)) from = load(&state);
    else take(&state, step);
    call(espalier_taken(worker, state.step, from));
  }
  call(espalier_commit(worker));

  while (state.step < program.total_steps) {
    int64_t first;
    const int share = espalier_samples(worker, state.step + 1, &first);
    const int unit = espalier_unit(worker), member = espalier_rank(worker) % unit;
    const int begins = share * member / unit, count = share * (member + 1) / unit - begins;
    first += begins;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    const double loss = train(&state, first, count, &stand);
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    call(espalier_report(worker, state.step, loss, seconds));
    if (espalier_rank(worker) == 0) {
      printf("{\"step\":%lld,\"loss\":%.17g,\"gpus\":%d}\n", (long long)state.step, loss, espalier_size(worker));
      if (evaluate_every > 0 && state.step % evaluate_every == 0)
        printf("{\"step\":%lld,\"evaluated\":%.17g}\n", (long long)state.step, evaluate(&state));
      fflush(stdout);
      if (checkpoint != NULL && (state.step % 50 == 0 || espalier_checkpoint_wanted(worker))) save(&state);
    }
    if (stand && state.step < program.total_steps) {
      if (pwrite(memory, &state, sizeof state, 0) != (ssize_t)sizeof state) fail(strerror(errno));
      call(espalier_give(worker, state.step, memory, sizeof state));
      call(espalier_stand(worker, state.step));
    }
  }
  call(espalier_done(worker, state.step));
  espalier_free(worker);
  MPI_Finalize();
  return 0;
}
