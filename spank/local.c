#include "spank/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/slurm/job_record.h"
#include "spank/container.h"
#include "spank/gpu_request.h"
#include "spank/option.h"
#include "spank/pyxis.h"

void espalier_local_init(spank_t spank) {
  espalier_pyxis_leave();
  int typed = 0;
  const char* container = espalier_container_of_command(&typed);
  if (container) setenv(ESPALIER_CONTAINER_ENV, container, 1);
  else unsetenv(ESPALIER_CONTAINER_ENV);
  espalier_option_register(spank);
}

/* GPUs of an allocation by its per-node details "gpu:h100:2(IDX:0-1)", else by what was asked for: a slurmctld that has
 * just come back may not know yet which ones the job has. */
static long gpus_of(const slurm_job_info_t* job) {
  long sum = 0;
  for (uint32_t i = 0; job->gres_detail_str && i < job->gres_detail_cnt; i++) {
    char items[1024];
    size_t n = 0;
    int depth = 0; /* "(IDX:0,2)" has commas of its own */
    for (const char* c = job->gres_detail_str[i]; c && *c && n < sizeof(items) - 1; c++) {
      depth += *c == '(';
      if (depth == 0) items[n++] = *c;
      depth -= *c == ')';
    }
    items[n] = '\0';
    sum += espalier_gpus_in(items);
  }
  if (sum == 0) sum = espalier_gpus_in(job->gres_total);
  if (sum > 0) return sum;
  const struct espalier_shape shape = {job->tres_per_job,
                                       job->tres_per_node,
                                       job->tres_per_socket,
                                       job->tres_per_task,
                                       job->num_nodes,
                                       job->num_tasks == NO_VAL ? 0 : job->num_tasks,
                                       0,
                                       job->ntasks_per_tres >= NO_VAL16 ? 0 : job->ntasks_per_tres};
  int exact = 0;
  return espalier_gpus_requested(&shape, &exact);
}

static const char* parts_of(const slurm_job_info_t* job) {
  const char* requests[] = {job->tres_per_job, job->tres_per_node, job->tres_per_socket, job->tres_per_task};
  const char* parts = NULL;
  for (size_t i = 0; !parts && i < sizeof(requests) / sizeof(requests[0]); i++)
    parts = espalier_gpu_parts_in(requests[i]);
  return parts;
}

static int check_allocation(uint32_t id, const char* text, const struct espalier_elastic* elastic, char* why,
                            size_t size) {
  job_info_msg_t* reply = NULL;
  int rc = 0;
  if (espalier_slurm_load_job(&reply, id, SHOW_DETAIL) != SLURM_SUCCESS || !reply) return 0;
  for (uint32_t i = 0; i < reply->record_count; i++) {
    const slurm_job_info_t* job = &reply->job_array[i];
    if (espalier_slurm_job_id(job) != id || job->job_state != JOB_RUNNING) continue;
    if (job->het_job_id) {
      espalier_elastic_refusal(text, "heterogeneous jobs cannot be elastic", "submit one job per component", why, size);
      rc = -1;
    } else if (parts_of(job)) {
      espalier_elastic_refusal(text, parts_of(job), "ask for whole GPUs, as in --gpus=2", why, size);
      rc = -1;
    } else {
      rc = espalier_elastic_fits_request(text, elastic, gpus_of(job), why, size);
    }
  }
  slurm_free_job_info_msg(reply);
  return rc;
}

int espalier_local_check(const char* text, const struct espalier_elastic* elastic, char* why, size_t size) {
  /* An option that the step only inherits must not make it fail: it runs in its container, without elasticity. */
  int typed = 0;
  const char* container = espalier_container_of_command(&typed);
  if (container && typed) {
    char problem[128];
    snprintf(problem, sizeof(problem), "a step that %s starts in a container cannot be elastic", container);
    espalier_elastic_refusal(text, problem, ESPALIER_CONTAINER_REMEDY, why, size);
    return -1;
  }
  if (getenv("SLURM_HET_SIZE")) {
    espalier_elastic_refusal(text, "heterogeneous jobs cannot be elastic", "submit one job per component", why, size);
    return -1;
  }
  const char *id = getenv("SLURM_JOB_ID"), *active = getenv(ESPALIER_GUARD_ENV);
  if (id && !(active && strcmp(id, active) == 0)) {
    char* end;
    unsigned long number = strtoul(id, &end, 10);
    if (end != id && !*end && number > 0 && number < NO_VAL)
      return check_allocation((uint32_t)number, text, elastic, why, size);
  }
  return 0;
}
