#include "planner/slurm/job_record.h"

#include "planner/slurm/release.h"
#include "planner/slurm/step_id.h"

typedef int by_number(job_info_msg_t**, uint32_t, uint16_t);
typedef int by_step(job_info_msg_t**, slurm_step_id_t, uint16_t);

static inline int load_by_number(by_number* load, job_info_msg_t** answer, uint32_t job, uint16_t flags) {
  return load(answer, job, flags);
}
static inline int load_by_step(by_step* load, job_info_msg_t** answer, uint32_t job, uint16_t flags) {
  return load(answer, espalier_slurm_step_id(job, NO_VAL), flags);
}

int espalier_slurm_load_job(job_info_msg_t** answer, uint32_t job, uint16_t flags) {
  return _Generic(&slurm_load_job, by_number *
                  : load_by_number, by_step *
                  : load_by_step)(slurm_load_job, answer, job, flags);
}

#if ESPALIER_SLURM_SINCE(26, 5)
#define JOB_ID(record) ((record)->step_id.job_id)
#else
#define JOB_ID(record) ((record)->job_id)
#endif

uint32_t espalier_slurm_job_id(const slurm_job_info_t* job) { return JOB_ID(job); }
uint32_t espalier_slurm_submitted_id(const submit_response_msg_t* answer) { return JOB_ID(answer); }
