/* Slurm's entry points. Each context has a file that does the work. No entry point returns an
 * error: a step must not fail because of this plugin. Only the option's callback refuses, while
 * the user types. */
#include "spank/allocator.h"
#include "spank/job_script.h"
#include "spank/local.h"
#include "spank/option.h"
#include "spank/remote.h"
#include "spank/site.h"
#include "spank/slurm_versions.h"
#include "spank/slurmd.h"

#pragma GCC visibility push(default) /* exports all of espalier.lds, and nothing else */
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
SPANK_PLUGIN(espalier, 1)

int slurm_spank_init(spank_t spank, int argc, char** argv) {
  espalier_site_read(argc, argv);
  switch (spank_context()) {
    case S_CTX_LOCAL:
      espalier_local_init(spank);
      break;
    case S_CTX_ALLOCATOR:
      espalier_allocator_init(spank);
      break;
    case S_CTX_REMOTE:
      espalier_remote_init(spank);
      break;
    case S_CTX_SLURMD:
      espalier_slurmd_init(spank);
      break;
    case S_CTX_JOB_SCRIPT:
      espalier_option_register(spank);
      break;
    default:
      break;
  }
  return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  if (spank_context() == S_CTX_REMOTE) espalier_remote_post_opt(spank);
  return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  espalier_remote_task_init(spank);
  return 0;
}

int slurm_spank_task_exit(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  espalier_remote_task_exit(spank);
  return 0;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char** argv) {
  espalier_site_read(argc, argv); /* some releases call no init in this context */
  espalier_job_epilog(spank);
  return 0;
}

/* Some releases call slurm_spank_init in slurmd only for plugins that have this one. */
int slurm_spank_slurmd_exit(spank_t spank, int argc, char** argv) {
  (void)spank, (void)argc, (void)argv;
  return 0;
}
#pragma GCC visibility pop
