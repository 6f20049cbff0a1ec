/* Slurm's headers, and the only test of Slurm's release. It is for the C files of this folder and for the plugins.
 *
 * Where a function's parameters differ between releases, the files of this folder choose by the declared type of the
 * function (_Generic), so that the release in which it changed need not be known. A release is tested only where a
 * structure's members differ. Seen: 22.05, 24.11, 25.11 and 26.05; 23.11 and 25.05 lie between two of these. */
#ifndef ESPALIER_SLURM_RELEASE_H
#define ESPALIER_SLURM_RELEASE_H

/* slurm.h needs these first and does not include them. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "Espalier needs Slurm 22.05 or later"
#endif

#define ESPALIER_SLURM_SINCE(major, minor) (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(major, minor, 0))

#endif
