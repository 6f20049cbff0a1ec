/* Answers of slurmctld about the cluster of site_table.h, for `espalier-bench daemon`: preloaded into espalierd, which
 * itself is the product's. Nodes, jobs, partitions and switches come from the table, in the form in which libslurm has
 * them; all else comes from the Slurm of the box. Not measured is what libslurm takes to receive and unpack them.
 * Of Slurm 22.05 only, whose records these are; empty with others. */
#define _GNU_SOURCE /* vasprintf */
#include <fcntl.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "planner/slurm/release.h"
#include "tests/bench/daemon/site_table.h"

#if !ESPALIER_SLURM_SINCE(22, 6)

static struct site_table* table(void) {
  static struct site_table* mapped;
  if (mapped) return mapped;
  const char* path = getenv(SITE_TABLE_VARIABLE);
  const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void* at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    fprintf(stderr, "espalier-bench: " SITE_TABLE_VARIABLE " names no table\n");
    abort();
  }
  close(fd);
  return mapped = at;
}

static void lock(struct site_table* t) {
  if (pthread_mutex_lock(&t->lock) == EOWNERDEAD) pthread_mutex_consistent(&t->lock);
}

static char* text(const char* format, ...) {
  char* made = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&made, format, arguments) < 0) abort();
  va_end(arguments);
  return made;
}

static void* zeroed(size_t count, size_t size) {
  void* made = calloc(count ? count : 1, size);
  if (!made) abort();
  return made;
}

/* "gpu:h100:3(IDX:0,1,5)" */
static char* gres_text(unsigned gpus) {
  char list[64] = "";
  int count = 0;
  for (int gpu = 0; gpu < SITE_NODE_GPUS; ++gpu)
    if (gpus >> gpu & 1) sprintf(list + strlen(list), "%s%d", count++ ? "," : "", gpu);
  return count ? text("gpu:h100:%d(IDX:%s)", count, list) : text("gpu:h100:0(IDX:N/A)");
}

int slurm_load_jobs(time_t since, job_info_msg_t** answer, uint16_t flags) {
  (void)since, (void)flags;
  struct site_table* t = table();
  lock(t);
  const uint32_t count = t->jobs;
  struct site_job* copy = zeroed(count, sizeof *copy);
  memcpy(copy, t->job, count * sizeof *copy);
  pthread_mutex_unlock(&t->lock);
  job_info_msg_t* made = zeroed(1, sizeof *made);
  made->job_array = zeroed(count, sizeof *made->job_array);
  for (uint32_t i = 0; i < count; ++i) {
    const struct site_job* from = copy + i;
    if (from->state == SITE_NONE) continue;
    slurm_job_info_t* job = made->job_array + made->record_count++;
    job->job_id = from->id;
    job->user_id = from->uid;
    job->name = strdup(from->anchor ? "espalier-ext" : "train");
    job->partition = strdup(from->anchor ? "elastic" : "main");
    job->comment = from->anchor ? text("espalier:ext:%u:%u", from->anchor, from->id) : NULL;
    job->priority = 1000;
    job->num_nodes = from->held_nodes ? from->held_nodes : (from->wanted_gpus + SITE_NODE_GPUS - 1) / SITE_NODE_GPUS;
    job->num_tasks = 1;
    job->sockets_per_node = NO_VAL16;
    job->tres_per_node = text("gres:gpu:%u", from->wanted_gpus);
    job->submit_time = job->eligible_time = from->submitted;
    job->shared = NO_VAL16;  // it shares its nodes with others
    job->start_time = from->started;
    job->end_time = from->ended;
    job->job_state = from->state == SITE_PENDING   ? JOB_PENDING
                     : from->state == SITE_RUNNING ? JOB_RUNNING
                                                   : JOB_COMPLETE;
    job->state_reason = from->state == SITE_PENDING ? WAIT_RESOURCES : WAIT_NO_REASON;
    if (from->state != SITE_RUNNING) continue;
    job->gres_detail_cnt = from->held_nodes;
    job->gres_detail_str = zeroed(from->held_nodes, sizeof(char*));
    char names[SITE_HELD_NODES * 16] = "";
    for (uint32_t n = 0; n < from->held_nodes; ++n) {
      sprintf(names + strlen(names), "%s" SITE_NODE_NAME, n ? "," : "", from->held[n].node);
      job->gres_detail_str[n] = gres_text(from->held[n].gpus);
    }
    job->nodes = strdup(names);
  }
  free(copy);
  *answer = made;
  return SLURM_SUCCESS;
}

void slurm_free_job_info_msg(job_info_msg_t* answer) {
  for (uint32_t i = 0; i < answer->record_count; ++i) {
    slurm_job_info_t* job = answer->job_array + i;
    for (uint32_t n = 0; n < job->gres_detail_cnt; ++n) free(job->gres_detail_str[n]);
    free(job->gres_detail_str);
    free(job->nodes), free(job->tres_per_node), free(job->comment), free(job->partition), free(job->name);
  }
  free(answer->job_array);
  free(answer);
}

int slurm_load_node(time_t since, node_info_msg_t** answer, uint16_t flags) {
  (void)since, (void)flags;
  struct site_table* t = table();
  lock(t);
  const uint32_t count = t->nodes;
  uint16_t* used = zeroed(count, sizeof *used);
  for (uint32_t i = 0; i < t->jobs; ++i)
    if (t->job[i].state == SITE_RUNNING)
      for (uint32_t n = 0; n < t->job[i].held_nodes; ++n) used[t->job[i].held[n].node] |= t->job[i].held[n].gpus;
  pthread_mutex_unlock(&t->lock);
  node_info_msg_t* made = zeroed(1, sizeof *made);
  made->record_count = count;
  made->node_array = zeroed(count, sizeof *made->node_array);
  for (uint32_t i = 0; i < count; ++i) {
    node_info_t* node = made->node_array + i;
    node->name = text(SITE_NODE_NAME, i);
    node->gres = strdup("gpu:h100:8");
    node->gres_used = gres_text(used[i]);
    node->cpus = node->cpus_efctv = 128;
    node->real_memory = 1 << 20;
    node->mem_spec_limit = NO_VAL64;
    node->node_state = used[i] ? NODE_STATE_MIXED : NODE_STATE_IDLE;
  }
  free(used);
  *answer = made;
  return SLURM_SUCCESS;
}

void slurm_free_node_info_msg(node_info_msg_t* answer) {
  for (uint32_t i = 0; i < answer->record_count; ++i)
    free(answer->node_array[i].name), free(answer->node_array[i].gres), free(answer->node_array[i].gres_used);
  free(answer->node_array);
  free(answer);
}

/* Of the nodes above: each GPU's job has 8 CPUs and 64 GB. */
int slurm_get_select_nodeinfo(dynamic_plugin_data_t* info, enum select_nodedata_type what, enum node_states state,
                              void* data) {
  (void)info, (void)state;
  if (what == SELECT_NODEDATA_SUBCNT) *(uint16_t*)data = 0;
  if (what == SELECT_NODEDATA_MEM_ALLOC) *(uint64_t*)data = 0;
  return SLURM_SUCCESS;
}

static char* all_nodes(void) { return text("g[0000-%04u]", table()->nodes - 1); }

int slurm_load_partitions(time_t since, partition_info_msg_t** answer, uint16_t flags) {
  (void)since, (void)flags;
  partition_info_msg_t* made = zeroed(1, sizeof *made);
  made->record_count = 2;
  made->partition_array = zeroed(2, sizeof *made->partition_array);
  for (int i = 0; i < 2; ++i) {
    partition_info_t* partition = made->partition_array + i;
    partition->name = strdup(i ? "elastic" : "main");
    partition->nodes = all_nodes();
    partition->state_up = PARTITION_UP;
    partition->preempt_mode = i ? PREEMPT_MODE_CANCEL : PREEMPT_MODE_OFF;
  }
  *answer = made;
  return SLURM_SUCCESS;
}

void slurm_free_partition_info_msg(partition_info_msg_t* answer) {
  for (uint32_t i = 0; i < answer->record_count; ++i)
    free(answer->partition_array[i].name), free(answer->partition_array[i].nodes);
  free(answer->partition_array);
  free(answer);
}

/* None: espalierd then reads planner.topology_file. */
int slurm_load_topo(topo_info_response_msg_t** answer) {
  *answer = zeroed(1, sizeof **answer);
  return SLURM_SUCCESS;
}

void slurm_free_topo_info_msg(topo_info_response_msg_t* answer) { free(answer); }

#else
typedef int nothing; /* ISO C wants a declaration */
#endif
