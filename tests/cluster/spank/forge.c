/* forge SCRIPT GPUS NAME=VALUE...: submits a batch job with job-control environment entries of the user's choice, past
 * sbatch and its plugins, with the comment that $FORGE_COMMENT holds, if any. Prints the job's id, or slurmctld's
 * message. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "planner/slurm/job_record.h"

int main(int argc, char** argv) {
  static char path[] = "PATH=/usr/bin:/bin", directory[] = "/tmp", output[] = "/dev/null";
  char* environment[] = {path, NULL};
  job_desc_msg_t job;
  submit_response_msg_t* response = NULL;
  if (argc < 3) return 2;
  slurm_init(NULL);
  slurm_init_job_desc_msg(&job);
  job.script = argv[1];
  job.tres_per_node = argv[2];
  job.spank_job_env = argv + 3;
  job.spank_job_env_size = (uint32_t)(argc - 3);
  job.environment = environment;
  job.env_size = 1;
  job.work_dir = directory;
  job.std_out = output;
  job.std_err = output;
  job.user_id = getuid();
  job.group_id = getgid();
  job.min_nodes = 1;
  job.comment = getenv("FORGE_COMMENT");
  if (slurm_submit_batch_job(&job, &response) != SLURM_SUCCESS || !response || response->error_code) {
    printf("%s: %s\n", response && response->job_submit_user_msg ? response->job_submit_user_msg : "",
           slurm_strerror(errno));
    return 1;
  }
  printf("%u\n", espalier_slurm_submitted_id(response));
  return 0;
}
