/* The job_submit plugin. It refuses elastic requests that cannot be met, keeps users out of the
 * partition for extensions where there is a key, and reports every submission to the planner. It
 * runs in slurmctld, under slurmctld's locks and in several threads at once. So it makes no RPC,
 * uses no disk, never waits for anything, and keeps no state beyond one socket, the key and the
 * grants that were used. */
#include <stdio.h>
#include <string.h>

#include "spank/container.h"
#include "spank/elastic_option.h"
#include "spank/elastic_partition.h"
#include "spank/gpu_request.h"
#include "spank/notice.h"
#include "spank/option.h"
#include "spank/slurm_versions.h"

/* Without SPANK (REST) the option may come in the comment. An extension has a comment of its
 * own, and so has the base of a movable job: to this plugin a base is a plain job with GPUs. */
static const char kComment[] = "espalier:", kExtension[] = ESPALIER_EXTENSION_COMMENT, kBase[] = "espalier:base:";

static int starts_with(const char* text, const char* prefix) {
  return text && strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The option's value in "NAME=VALUE" entries, or NULL. In slurmctld, SPANK_ may precede the
 * name. */
static const char* find_option(char** entries, uint32_t count) {
  static const char name[] = ESPALIER_OPTION_ENV "=";
  for (uint32_t i = 0; entries && i < count; i++) {
    const char* entry = entries[i];
    if (starts_with(entry, "SPANK_")) entry += strlen("SPANK_");
    if (starts_with(entry, name)) return entry + strlen(name);
  }
  return NULL;
}

static long number_or_0(uint32_t value) { return value == NO_VAL || value == INFINITE ? 0 : (long)value; }
static long number16_or_0(uint16_t value) { return value == NO_VAL16 || value == INFINITE16 ? 0 : (long)value; }

static long gpus_of(const job_desc_msg_t* job, long nodes, int* exact) {
  struct espalier_shape shape;
  memset(&shape, 0, sizeof(shape));
  shape.per_job = job->tres_per_job;
  shape.per_node = job->tres_per_node;
  shape.per_socket = job->tres_per_socket;
  shape.per_task = job->tres_per_task;
  shape.nodes = nodes;
  shape.tasks = number_or_0(job->num_tasks);
  shape.tasks_per_gpu = number16_or_0(job->ntasks_per_tres);
  /* Slurm then gives each node one GPU, and starts as many tasks. */
  if (shape.tasks == 0 && shape.tasks_per_gpu) shape.tasks = nodes * shape.tasks_per_gpu;
  if (shape.tasks == 0) shape.tasks = nodes * (number16_or_0(job->ntasks_per_node) ? (long)job->ntasks_per_node : 1);
  shape.sockets_per_node = number16_or_0(job->sockets_per_node);
  return espalier_gpus_requested(&shape, exact);
}

static const char* parts_of(const job_desc_msg_t* job) {
  const char* requests[] = {job->tres_per_job, job->tres_per_node, job->tres_per_socket, job->tres_per_task};
  const char* parts = NULL;
  for (size_t i = 0; !parts && i < sizeof(requests) / sizeof(requests[0]); i++)
    parts = espalier_gpu_parts_in(requests[i]);
  return parts;
}

static int check(const job_desc_msg_t* job, const char* text, long gpus, int exact, char* why, size_t size) {
  struct espalier_elastic elastic;
  if (job->het_job_offset != NO_VAL) {
    espalier_elastic_refusal(text, "heterogeneous jobs cannot be elastic", "submit one job per component", why, size);
    return -1;
  }
  if (job->container && job->container[0]) {
    espalier_elastic_refusal(text, "--container puts the script into a container, where no launcher can run",
                             ESPALIER_CONTAINER_REMEDY, why, size);
    return -1;
  }
  if (espalier_elastic_parse(text, &elastic, why, size) != 0) return -1;
  if (parts_of(job)) {
    espalier_elastic_refusal(text, parts_of(job), "ask for whole GPUs, as in --gpus=2", why, size);
    return -1;
  }
  return exact ? espalier_elastic_fits_request(text, &elastic, gpus, why, size) : 0;
}

static int put_into_environment(job_desc_msg_t* job, const char* entry) {
  char* copy = slurm_xstrdup(entry);
  if (!copy || !ESPALIER_XRECALLOC(job->environment, job->env_size + 2)) return -1;
  job->environment[job->env_size++] = copy;
  return 0;
}

/* If a batch job's option came by comment, adds it to the environment as sbatch does. */
static int give_option(job_desc_msg_t* job, const char* text) {
  char entry[sizeof(ESPALIER_OPTION_ENV) + 1 + ESPALIER_VALUE_MAX];
  snprintf(entry, sizeof(entry), ESPALIER_OPTION_ENV "=%s", text);
  return put_into_environment(job, entry);
}

/* Keeps the job and its step when a node goes down, so that elastic training goes on without
 * that node. */
static int outlive_nodes(job_desc_msg_t* job) {
  job->kill_on_node_fail = 0;
  return put_into_environment(job, "SLURM_NO_KILL=set"); /* the script's srun refuses "1" */
}

#pragma GCC visibility push(default) /* exports all of job_submit.lds, and nothing else */
extern const char plugin_name[], plugin_type[];
extern const uint32_t plugin_version;
const char plugin_name[] = "Espalier: elastic jobs";
const char plugin_type[] = "job_submit/espalier";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

extern int init(void);
extern int fini(void);
extern int job_submit(job_desc_msg_t* job, uint32_t submit_uid, char** message);
extern int job_modify(ESPALIER_JOB_MODIFY_PARAMETERS);

int init(void) {
  espalier_notice_open();
  espalier_partition_open();
  return SLURM_SUCCESS;
}

int fini(void) {
  espalier_notice_close();
  return SLURM_SUCCESS;
}

int job_submit(job_desc_msg_t* job, uint32_t submit_uid, char** message) {
  char why[ESPALIER_MESSAGE_MAX];
  int exact = 0, by_comment = 0;
  long nodes = number_or_0(job->min_nodes) ? (long)job->min_nodes : 1, gpus = gpus_of(job, nodes, &exact);
  const char* text = find_option(job->spank_job_env, job->spank_job_env_size);
  if (espalier_partition_admits(job, submit_uid, gpus, exact, why, sizeof(why)) != 0) {
    if (message) *message = slurm_xstrdup(why);
    return ESLURM_ACCESS_DENIED;
  }
  const int marked = starts_with(job->comment, kExtension);
  /* The planner knows of its extensions. They have no option, and lie in one partition. */
  if (marked && !text && espalier_partition_may_be(job->partition)) return SLURM_SUCCESS;
  if (!text && !marked && starts_with(job->comment, kComment) && !starts_with(job->comment, kBase)) {
    text = job->comment + strlen(kComment);
    by_comment = 1;
  }
  if (text && check(job, text, gpus, exact, why, sizeof(why)) != 0) {
    if (message) *message = slurm_xstrdup(why);
    return ESLURM_INVALID_GRES;
  }
  if (text && (job->script || job->script_buf) &&
      ((by_comment && give_option(job, text) != 0) || outlive_nodes(job) != 0))
    return SLURM_ERROR;
  espalier_notice_job_submitted(job->user_id == NO_VAL ? submit_uid : job->user_id, gpus, nodes, text != NULL);
  return SLURM_SUCCESS;
}

int job_modify(ESPALIER_JOB_MODIFY_PARAMETERS) {
  (void)job;
#if ESPALIER_SLURM_SINCE(23, 2)
  (void)message;
#endif
  return espalier_partition_admits_change(description, submit_uid) == 0 ? SLURM_SUCCESS : ESLURM_ACCESS_DENIED;
}
#pragma GCC visibility pop
