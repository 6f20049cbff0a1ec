#define _POSIX_C_SOURCE 200809L /* stpcpy */
#include "planner/slurm/accounting.h"

#include <errno.h>
#include <pthread.h> /* slurmdb.h needs it and does not include it */
#include <stdlib.h>
#include <string.h>

#include "planner/slurm/command.h"
#include "planner/slurm/release.h"

#include <slurm/slurmdb.h>

/* libslurm exports these, but its public headers do not declare them. */
extern int slurm_bit_test(bitstr_t* bits, int64_t bit);
extern int64_t slurm_bit_size(bitstr_t* bits);

/* Lists and their iterators are void pointers here: they convert to the types that each release has. */
static assoc_mgr_info_msg_t* ask(uint32_t flags) {
  assoc_mgr_info_request_msg_t request;
  assoc_mgr_info_msg_t* answer = NULL;
  memset(&request, 0, sizeof(request));
  request.flags = flags;
  return slurm_load_assoc_mgr_info(&request, &answer) == SLURM_SUCCESS ? answer : NULL;
}

/* The names, each with a comma behind it, in memory that the caller frees. */
static char* preempted_by(slurmdb_qos_rec_t* qos, void* list) {
  size_t size = 1;
  slurmdb_qos_rec_t* other;
  void* all = slurm_list_iterator_create(list);
  while ((other = slurm_list_next(all))) size += other->name ? strlen(other->name) + 1 : 0;
  slurm_list_iterator_destroy(all);
  char *text = calloc(1, size), *end = text;
  if (!text || !qos->preempt_bitstr) return text;
  all = slurm_list_iterator_create(list);
  while ((other = slurm_list_next(all)))
    if (other->name && (int64_t)other->id < slurm_bit_size(qos->preempt_bitstr) &&
        slurm_bit_test(qos->preempt_bitstr, other->id)) {
      end = stpcpy(end, other->name);
      *end++ = ',';
    }
  slurm_list_iterator_destroy(all);
  return text;
}

static int is_set(const char* tres) { return tres && *tres; }
static int is_number(uint32_t limit) { return limit != INFINITE && limit != NO_VAL; }

int espalier_slurm_each_qos(void (*each)(void* context, const struct espalier_qos* qos), void* context) {
  assoc_mgr_info_msg_t* answer = ask(ASSOC_MGR_INFO_FLAG_QOS);
  if (!answer) return SLURM_ERROR;
  if (answer->qos_list) {
    void* all = slurm_list_iterator_create(answer->qos_list);
    slurmdb_qos_rec_t* record;
    while ((record = slurm_list_next(all))) {
      char* preempts = preempted_by(record, answer->qos_list);
      struct espalier_qos qos = {
          record->name, preempts, record->preempt_mode, record->grace_time, record->usage_factor, 0, 0, 0, -1};
      qos.group_limits = is_set(record->grp_tres) || is_set(record->grp_tres_run_mins) || is_number(record->grp_jobs);
      qos.user_limits =
          is_set(record->max_tres_pu) || is_set(record->max_tres_run_mins_pu) || is_number(record->max_jobs_pu);
      qos.account_limits =
          is_set(record->max_tres_pa) || is_set(record->max_tres_run_mins_pa) || is_number(record->max_jobs_pa);
      if (qos.grace_seconds == NO_VAL || qos.grace_seconds == INFINITE) qos.grace_seconds = 0;
      if (is_number(record->preempt_exempt_time)) qos.exempt_seconds = record->preempt_exempt_time;
      if (qos.preempt_mode == NO_VAL16) qos.preempt_mode = 0;
      if (record->name && preempts) each(context, &qos);
      free(preempts);
    }
    slurm_list_iterator_destroy(all);
  }
  slurm_free_assoc_mgr_info_msg(answer);
  return SLURM_SUCCESS;
}

int espalier_slurm_each_account(void (*each)(void* context, const struct espalier_account* account), void* context) {
  assoc_mgr_info_msg_t* answer = ask(ASSOC_MGR_INFO_FLAG_ASSOC);
  if (!answer) return SLURM_ERROR;
  if (answer->assoc_list) {
    void* all = slurm_list_iterator_create(answer->assoc_list);
    slurmdb_assoc_rec_t* record;
    while ((record = slurm_list_next(all))) {
      struct espalier_account account = {record->acct, record->parent_acct, record->user, 0};
      account.limited = is_set(record->grp_tres) || is_set(record->grp_tres_run_mins) || is_number(record->grp_jobs);
      if (record->acct) each(context, &account);
    }
    slurm_list_iterator_destroy(all);
  }
  slurm_free_assoc_mgr_info_msg(answer);
  return SLURM_SUCCESS;
}

char* espalier_slurm_shares(void) {
  int exit_code = 0;
  char* text = ESPALIER_SLURM_COMMAND(10, "sshare -a -n -P -o account,user,fairshare", &exit_code);
  if (!text || exit_code == 0) return text;
  free(text);
  errno = EIO;
  return NULL;
}
