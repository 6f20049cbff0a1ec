/* The output of Slurm's own commands, for what libslurm does not tell. */
#ifndef ESPALIER_SLURM_COMMAND_H
#define ESPALIER_SLURM_COMMAND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a command of Slurm prints, as in ESPALIER_SLURM_COMMAND(60, "scontrol show topology", NULL). It is ended after
 * so many seconds. `exit_code` gets its exit code, if it is not NULL: most of Slurm's commands end with another one
 * than 0 when slurmctld does not answer. NULL with errno: ENOENT when it cannot be run or was ended, ENOMEM. The caller
 * frees the text with free(). */
#define ESPALIER_SLURM_COMMAND(seconds, words, exit_code) \
  espalier_slurm_command("exec timeout -k 5 " #seconds " " ESPALIER_SLURM_BIN "/" words " 2>/dev/null", exit_code)
char* espalier_slurm_command(const char* line, int* exit_code);

/* The job's record as `scontrol -o show job` prints it, within 10 s. NULL and errno as above; the caller frees it. */
char* espalier_slurm_job_text(uint32_t job);

#ifdef __cplusplus
}
#endif

#endif
