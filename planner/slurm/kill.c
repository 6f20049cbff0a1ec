#include "planner/slurm/kill.h"

#include "planner/slurm/release.h"
#include "planner/slurm/step_id.h"

typedef int job_by_number(uint32_t, uint16_t, uint16_t);
typedef int job_by_id(slurm_step_id_t, uint16_t, uint16_t);
static inline int kill_job_number(job_by_number* call, uint32_t job, uint16_t signal, uint16_t flags) {
  return call(job, signal, flags);
}
static inline int kill_job_id(job_by_id* call, uint32_t job, uint16_t signal, uint16_t flags) {
  return call(espalier_slurm_step_id(job, NO_VAL), signal, flags);
}

int espalier_slurm_kill_job(uint32_t job, uint16_t signal, uint16_t flags) {
  return _Generic(&slurm_kill_job, job_by_number *
                  : kill_job_number, job_by_id *
                  : kill_job_id)(slurm_kill_job, job, signal, flags);
}

typedef int step_plain(uint32_t, uint32_t, uint16_t);
typedef int step_flags(uint32_t, uint32_t, uint16_t, uint16_t);
typedef int step_by_id(slurm_step_id_t*, uint16_t, uint16_t);
static inline int kill_step_plain(step_plain* call, uint32_t job, uint32_t step, uint16_t signal) {
  return call(job, step, signal);
}
static inline int kill_step_flags(step_flags* call, uint32_t job, uint32_t step, uint16_t signal) {
  return call(job, step, signal, 0);
}
static inline int kill_step_id(step_by_id* call, uint32_t job, uint32_t step, uint16_t signal) {
  slurm_step_id_t id = espalier_slurm_step_id(job, step);
  return call(&id, signal, 0);
}

int espalier_slurm_kill_step(uint32_t job, uint32_t step, uint16_t signal) {
  return _Generic(&slurm_kill_job_step, step_plain *
                  : kill_step_plain, step_flags *
                  : kill_step_flags, step_by_id *
                  : kill_step_id)(slurm_kill_job_step, job, step, signal);
}

typedef int requeue_number(uint32_t, uint32_t);
typedef int requeue_id(slurm_step_id_t, uint32_t);
static inline int requeue_by_number(requeue_number* call, uint32_t job) { return call(job, 0); }
static inline int requeue_by_id(requeue_id* call, uint32_t job) { return call(espalier_slurm_step_id(job, NO_VAL), 0); }

int espalier_slurm_requeue(uint32_t job) {
  return _Generic(&slurm_requeue, requeue_number *
                  : requeue_by_number, requeue_id *
                  : requeue_by_id)(slurm_requeue, job);
}

typedef int steps_by_number(time_t, uint32_t, uint32_t, job_step_info_response_msg_t**, uint16_t);
typedef int steps_by_id(slurm_step_id_t*, job_step_info_response_msg_t**, uint16_t);
static inline int get_by_number(steps_by_number* call, uint32_t job, job_step_info_response_msg_t** answer) {
  return call(0, job, NO_VAL, answer, SHOW_ALL);
}
static inline int get_by_id(steps_by_id* call, uint32_t job, job_step_info_response_msg_t** answer) {
  slurm_step_id_t id = espalier_slurm_step_id(job, NO_VAL);
  return call(&id, answer, SHOW_ALL);
}

int espalier_slurm_get_steps(uint32_t job, job_step_info_response_msg_t** answer) {
  return _Generic(&slurm_get_job_steps, steps_by_number *
                  : get_by_number, steps_by_id *
                  : get_by_id)(slurm_get_job_steps, job, answer);
}
