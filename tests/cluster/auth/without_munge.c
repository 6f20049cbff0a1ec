/* Preloaded into a program of Espalier: a site with AuthType=auth/slurm and without MUNGE, as far as that program can
 * see. This machine's Slurm has no such plugin, and the program's libslurm goes on talking to the box's slurmctld by
 * MUNGE. KEEP_AUTH_TYPE=1: AuthType stays auth/munge. MUNGE_BACK=FILE: there is MUNGE once that file exists. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <munge.h>
#include <slurm/slurm.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int slurm_load_ctl_conf(time_t since, slurm_conf_t** conf) {
  int (*real)(time_t, slurm_conf_t**) = (int (*)(time_t, slurm_conf_t**))dlsym(RTLD_NEXT, "slurm_load_ctl_conf");
  int rc = real(since, conf);
  if (rc == 0 && !getenv("KEEP_AUTH_TYPE") && (*conf)->authtype && strlen((*conf)->authtype) >= strlen("auth/slurm"))
    strcpy((*conf)->authtype, "auth/slurm");
  return rc;
}

/* Espalier encrypts its credentials, and Slurm does not ask for it. */
munge_err_t munge_ctx_set(munge_ctx_t context, int option, ...) {
  munge_err_t (*real)(munge_ctx_t, int, ...) = (munge_err_t(*)(munge_ctx_t, int, ...))dlsym(RTLD_NEXT, "munge_ctx_set");
  if (!real) /* srun has libmunge in a plugin, where RTLD_NEXT does not look */
    real = (munge_err_t(*)(munge_ctx_t, int, ...))dlsym(dlopen("libmunge.so.2", RTLD_LAZY), "munge_ctx_set");
  va_list more;
  va_start(more, option);
  void* value = va_arg(more, void*); /* an integer or a pointer: both come in one register */
  va_end(more);
  const char* back = getenv("MUNGE_BACK");
  const int away = !back || access(back, F_OK) != 0;
  return option == MUNGE_OPT_CIPHER_TYPE && away ? EMUNGE_SOCKET : real(context, option, value);
}
