/* The output of Slurm's own commands, for what libslurm does not tell. */
#ifndef ESPALIER_SLURM_COMMAND_H
#define ESPALIER_SLURM_COMMAND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a command of Slurm prints, as in ESPALIER_SLURM_COMMAND(60, "scontrol show topology"). It is ended after so many
 * seconds. NULL with errno: ENOENT when it cannot be run or was ended, ENOMEM. The caller frees the text with free().
 */
#define ESPALIER_SLURM_COMMAND(seconds, words) \
  espalier_slurm_command("exec timeout -k 5 " #seconds " " ESPALIER_SLURM_BIN "/" words " 2>/dev/null")
char* espalier_slurm_command(const char* line);

/* The job's record as `scontrol -o show job` prints it, within 10 s. NULL and errno as above; the caller frees it. */
char* espalier_slurm_job_text(uint32_t job);

#ifdef __cplusplus
}
#endif

#endif
