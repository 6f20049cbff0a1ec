#include "spank/elastic_partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "planner/wire/grant.h"
#include "spank/used_grants.h"

static struct espalier_grant_key key;
static int has_key;
enum { kClockSeconds = 5 }; /* that espalierd's clock may be ahead */
static int64_t loaded_at;

void espalier_partition_open(void) {
  char why[512];
  int found = espalier_grant_key_read(ESPALIER_GRANT_KEY, &key, why, sizeof(why));
  has_key = found > 0;
  loaded_at = time(NULL);
  if (found < 0) slurm_error("espalier: job_submit: %s; users are not kept out of the partition for extensions", why);
}

/* Whether `list`, "a,b", names the partition. NULL: the default partition, which is not the one for extensions. */
static int names_partition(const char* list) {
  size_t known = strlen(key.partition);
  while (list && *list) {
    size_t length = strcspn(list, ",");
    if (length == known && memcmp(list, key.partition, known) == 0) return 1;
    list += length + (list[length] == ',');
  }
  return 0;
}

/* slurmctld runs as SlurmUser. */
static int is_administrator(uint32_t uid) { return uid == 0 || uid == geteuid(); }

static const char* grant_in(const job_desc_msg_t* job) {
  static const char name[] = ESPALIER_GRANT_ENV "=";
  for (uint32_t i = 0; job->environment && i < job->env_size; i++)
    if (job->environment[i] && strncmp(job->environment[i], name, sizeof(name) - 1) == 0)
      return job->environment[i] + sizeof(name) - 1;
  return NULL;
}

/* The site's own words may follow, after a space. */
static int comment_is(const char* comment, const struct espalier_grant* grant) {
  char expected[64];
  const int length = snprintf(expected, sizeof(expected), ESPALIER_EXTENSION_COMMENT "%u:%s", grant->anchor, grant->id);
  return comment && strncmp(comment, expected, length) == 0 && (comment[length] == '\0' || comment[length] == ' ');
}

/* What is wrong with the job, as an end of a sentence; NULL: it is the one that was granted. */
static const char* problem_of(const job_desc_msg_t* job, uint32_t submit_uid, long gpus, int exact) {
  struct espalier_grant grant;
  int64_t now = time(NULL);
  const char* text = grant_in(job);
  if (!text || !*text) return "this job has no grant of espalierd";
  if (espalier_grant_open(text, &key, &grant) != 0) return "its grant is not of espalierd";
  if (grant.uid != submit_uid || (job->user_id != NO_VAL && job->user_id != grant.uid))
    return "its grant is another user's";
  if (now > grant.expiry) return "its grant has expired";
  if (grant.expiry > now + ESPALIER_GRANT_SECONDS + kClockSeconds ||
      grant.expiry - ESPALIER_GRANT_SECONDS - kClockSeconds <= loaded_at)
    return "its grant is older than slurmctld's start, or of a clock that is ahead";
  if (strcmp(job->partition, key.partition) != 0) return "it names another partition, too";
  if (!comment_is(job->comment, &grant)) return "its grant is for another extension";
  if (!job->req_nodes || strcmp(job->req_nodes, grant.node) != 0 || job->min_nodes != 1 || job->max_nodes != 1)
    return "its grant is for another node";
  if (!exact || gpus != grant.gpus || job->shared == 0) return "its grant is for another number of GPUs";
  if (job->time_limit == NO_VAL || job->time_limit > (uint32_t)grant.minutes)
    return "its grant is for a shorter time limit";
  if (job->array_inx || job->het_job_offset != NO_VAL) return "an extension is one job";
  if (espalier_use_grant(grant.id, job->immediate != 0, now, grant.expiry) != 0) return "its grant was used before";
  return NULL;
}

int espalier_partition_admits(const job_desc_msg_t* job, uint32_t submit_uid, long gpus, int exact, char* why,
                              size_t size) {
  if (!has_key || !names_partition(job->partition) || is_administrator(submit_uid)) return 0;
  const char* problem = problem_of(job, submit_uid, gpus, exact);
  if (!problem) return 0;
  snprintf(why, size,
           "espalier: partition %s: is for the extensions of elastic jobs, and %s; choose another partition, or submit "
           "with --elastic",
           key.partition, problem);
  return -1;
}

int espalier_partition_admits_change(const job_desc_msg_t* change, uint32_t submit_uid) {
  return !has_key || !names_partition(change->partition) || is_administrator(submit_uid) ? 0 : -1;
}

int espalier_partition_may_be(const char* partitions) { return !has_key || names_partition(partitions); }
