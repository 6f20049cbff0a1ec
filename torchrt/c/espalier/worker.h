/* espalier/worker.h: makes a data-parallel training program elastic under Espalier, in any language that can call C.
 *
 * The library libespalier-worker speaks espalier-worker(7) for the program. The program says what it is, trains, and
 * hands its state over. A generation's life, with the calls in their order:
 *
 *     struct espalier_program program = {.size = sizeof program, .global_batch = 64, .total_steps = 10000};
 *     struct espalier_worker *w = espalier_join(&program);          // NULL: espalier_error(NULL) says why
 *     // set up everything slow: communicators, memory, the model
 *     espalier_measure(w, &profile);                                // the planner may then give the job more GPUs
 *     int64_t step;
 *     espalier_start(w, &step);                                     // ready; waits until the old generation stands
 *     if (espalier_recovers(w)) step = ...;                         // it is lost: read a checkpoint, or begin anew
 *     else if (espalier_takes(w)) espalier_take(w, old_rank, step, &fd, &bytes);
 *     if (espalier_takes(w)) espalier_taken(w, step, from);
 *     espalier_commit(w);                                           // from now on this generation is the job
 *     while (step < program.total_steps) {
 *       // the gradients of the samples espalier_samples(w, step + 1, &first)
 *       espalier_computed(w);
 *       // their sum; at the same time or by another sum all processes agree upon
 *       int stand = ...the sum over all processes of espalier_switch_wanted(w)...;
 *       espalier_summed(w);
 *       // the optimizer
 *       espalier_report(w, ++step, loss, seconds);
 *       // an evaluation now and then: espalier_progress(w) after each batch
 *       if (stand > 0 && step < program.total_steps) {
 *         espalier_give(w, step, fd, bytes);                        // memory with the state
 *         espalier_stand(w, step);                                  // ESPALIER_LEAVE: end with code 0
 *       }
 *     }
 *     espalier_done(w, step);
 *     espalier_free(w);
 *
 * Functions that return int return ESPALIER_OK or a number from 0 on, ESPALIER_LEAVE or ESPALIER_FAILED.
 * ESPALIER_LEAVE: the launcher said `exit`; end with code 0, without waiting for other processes. ESPALIER_FAILED:
 * espalier_error(w) says why; call espalier_fail() and end with another code. One thread at a time may use a worker.
 * When the launcher is gone the library ends the process, since another launcher may already lead the job's GPUs.
 */
#ifndef ESPALIER_WORKER_H
#define ESPALIER_WORKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_WORKER_VERSION 4 /* of this interface; fields are only ever added at the end of a struct */

enum { ESPALIER_OK = 0, ESPALIER_FAILED = -1, ESPALIER_LEAVE = -2 };

struct espalier_worker;

/* What the launcher must know of the program. Fields that are 0 or NULL have the value in brackets. */
struct espalier_program {
  size_t size;         /* sizeof(struct espalier_program), so that a newer library knows an older program; needed */
  int global_batch;    /* samples of a step, whatever the number of processes; needed */
  int64_t total_steps; /* needed */
  int unit;            /* GPUs of a replica, which the program divides among itself; on one node (1) */
  const char* name;    /* the same for programs with the same model and code, for the planner's memory (not told) */
  int start_seconds;   /* how long a generation may take from its start to espalier_start() (the site's limit) */
  /* Since version 2: the sizes of a replica that the program can run, at most 16, the preferred one first. Each
   * generation has one of them, which espalier_unit() tells. `unit` must be 0 beside them (only `unit`). */
  const int* units;
  size_t unit_count;
};

/* What the planner must know of the program to give it more GPUs, beside the times of its steps. */
struct espalier_profile {
  size_t size;             /* sizeof(struct espalier_profile); needed */
  uint64_t gradient_bytes; /* that the replicas sum in a step */
  uint64_t weight_bytes;   /* of the parameters that a process has */
  uint64_t state_bytes;    /* of all state that a process has: parameters, the optimizer's moments */
  /* Adds up `count` numbers over all processes, in place, as MPI_Allreduce() does. 0: done. Called inside
   * espalier_report() after a few steps, the same on all processes. Needed. */
  int (*sum)(double* values, int count, void* context);
  void* context; /* what `sum` is given; may be NULL */
};

/* 1: a launcher leads this process. 0: the program must train without this library. */
int espalier_has_launcher(void);

/* Logs in, says hello, and waits for the plan. Call it before anything that takes long. From then on SIGTERM does not
 * end the process: when to leave is the launcher's to say. NULL: failed. */
struct espalier_worker* espalier_join(const struct espalier_program* program);

/* Of this generation's plan. Processes are numbered as by MPI. */
int espalier_generation(const struct espalier_worker* worker);
int espalier_rank(const struct espalier_worker* worker);
int espalier_size(const struct espalier_worker* worker);
int espalier_unit(
    const struct espalier_worker* worker); /* GPUs of a replica: processes 0 to unit-1 are the first one */
int espalier_device(const struct espalier_worker* worker); /* which of the GPUs that the process can see is its own */
const char* espalier_plan(const struct espalier_worker* worker); /* JSON, as in espalier-worker(7) */
/* How many samples of `step` this process's replica computes. *first: the number of the first of them, of all samples
 * of the training. Steps are counted from 1, samples from 0. */
int espalier_samples(const struct espalier_worker* worker, int64_t step, int64_t* first);

/* Everything slow is done. Waits until state is to be taken, where there is some. *step: the step after which that
 * state is; 0 in a training that begins; -1 in a recovery, where the program itself must find out. */
int espalier_start(struct espalier_worker* worker, int64_t* step);
int espalier_takes(const struct espalier_worker* worker);    /* 1: a generation before this one had state */
int espalier_recovers(const struct espalier_worker* worker); /* 1: it is lost: read a checkpoint, or begin anew */
int espalier_old_size(const struct espalier_worker* worker); /* processes of the generation before */

/* The memory that process `old_rank` of the generation before has given after `step`, if that process is on this node.
 * *fd: a memfd, which the caller closes. */
int espalier_take(struct espalier_worker* worker, int old_rank, int64_t step, int* fd, uint64_t* bytes);
/* This process has the state after `step`. All processes say the same. from: NULL, or in a recovery "checkpoint" or
 * "start". */
int espalier_taken(struct espalier_worker* worker, int64_t step, const char* from);
/* Waits until this generation is the job. Write no file before. */
int espalier_commit(struct espalier_worker* worker);

/* From now on this process's steps are measured. Without it the job never gets more GPUs than it was submitted with: of
 * a program that is not known, the planner assumes nothing. On all processes, before the first step. Each step then has
 * espalier_computed(), espalier_summed() and espalier_report() on all of them. */
int espalier_measure(struct espalier_worker* worker, const struct espalier_profile* profile);
/* Inside a step: the gradients of this process's samples are there, and what follows is their sum over the replicas.
 * Work on a GPU must have ended. Where a program sums while it computes: when the last gradient is there. */
void espalier_computed(struct espalier_worker* worker);
/* Inside a step: the sum is there. What follows does not depend on the number of samples, as the optimizer's work. */
void espalier_summed(struct espalier_worker* worker);
/* The most GPU memory that this process has used so far. Not said: not measured, and the planner estimates none. */
void espalier_peak_memory(struct espalier_worker* worker, uint64_t bytes);

/* After each step, on process 0, and on all where steps are measured. A loss that is no number is allowed, and only
 * process 0's counts. seconds: how long the step took on this process, up to this call. */
int espalier_report(struct espalier_worker* worker, int64_t step, double loss, double seconds);
/* Since version 4. Tells the launcher that the job gets on with work that is no step: call it after each batch of an
 * evaluation. A job that does no step within launch.hang_seconds (600) and does not call it is taken for hung. Any
 * process may call it, after espalier_commit() and also after espalier_done(). Cheap: the launcher is told once per
 * heartbeat (a second) at most. It never fails. Do not call it while waiting: a job that hangs would never be started
 * again. */
void espalier_progress(struct espalier_worker* worker);
/* 1: the launcher wants all processes to stand at the next boundary that they agree upon; 0: it does not. */
int espalier_switch_wanted(struct espalier_worker* worker);
/* 1 once after each request of the launcher's for a checkpoint. */
int espalier_checkpoint_wanted(struct espalier_worker* worker);
/* Offers memory (a memfd) with the state after `step` to the processes of the next generation on this node, until
 * espalier_stand() returns. The caller keeps the descriptor, and must not change the memory meanwhile. */
int espalier_give(struct espalier_worker* worker, int64_t step, int fd, uint64_t bytes);
/* This process stands after `step`, and its state can be taken. ESPALIER_OK: train on. */
int espalier_stand(struct espalier_worker* worker, int64_t step);

/* After the last step. The process then ends with code 0. */
int espalier_done(struct espalier_worker* worker, int64_t step);
/* The last words of a process that fails. peer: 1 where it could not reach another process, so that the job may go on
 * without that one. */
void espalier_fail(struct espalier_worker* worker, const char* message, int peer);
/* Why the last call failed; worker NULL: of espalier_join(). Never NULL. */
const char* espalier_error(const struct espalier_worker* worker);
void espalier_free(struct espalier_worker* worker); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
