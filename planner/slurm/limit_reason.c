#include "planner/slurm/limit_reason.h"

#include <slurm/slurm.h>

enum espalier_limit_of espalier_slurm_limit_of(uint32_t reason) {
  switch (reason) {
    case WAIT_QOS_JOB_LIMIT:
    case WAIT_QOS_RESOURCE_LIMIT:
    case WAIT_QOS_GRP_GRES:
    case WAIT_QOS_GRP_CPU:
    case WAIT_QOS_GRP_MEM:
    case WAIT_QOS_GRP_NODE:
    case WAIT_QOS_GRP_JOB:
    case WAIT_QOS_GRP_BILLING:
    case WAIT_QOS_GRP_UNK:
    case WAIT_QOS_GRP_GRES_RUN_MIN:
    case WAIT_QOS_GRP_CPU_RUN_MIN:
    case WAIT_QOS_GRP_MEM_RUN_MIN:
    case WAIT_QOS_GRP_NODE_RUN_MIN:
    case WAIT_QOS_GRP_BILLING_RUN_MIN:
    case WAIT_QOS_GRP_UNK_RUN_MIN:
      return ESPALIER_LIMIT_OF_QOS;
    case WAIT_QOS_MAX_GRES_PER_USER:
    case WAIT_QOS_MAX_CPU_PER_USER:
    case WAIT_QOS_MAX_MEM_PER_USER:
    case WAIT_QOS_MAX_NODE_PER_USER:
    case WAIT_QOS_MAX_JOB_PER_USER:
    case WAIT_QOS_MAX_BILLING_PER_USER:
    case WAIT_QOS_MAX_UNK_PER_USER:
      return ESPALIER_LIMIT_OF_USER_IN_QOS;
    case WAIT_QOS_MAX_GRES_PER_ACCT:
    case WAIT_QOS_MAX_CPU_PER_ACCT:
    case WAIT_QOS_MAX_MEM_PER_ACCT:
    case WAIT_QOS_MAX_NODE_PER_ACCT:
    case WAIT_QOS_MAX_JOB_PER_ACCT:
    case WAIT_QOS_MAX_BILLING_PER_ACCT:
    case WAIT_QOS_MAX_UNK_PER_ACCT:
      return ESPALIER_LIMIT_OF_ACCOUNT_IN_QOS;
    case WAIT_ASSOC_JOB_LIMIT:
    case WAIT_ASSOC_RESOURCE_LIMIT:
    case WAIT_ASSOC_GRP_GRES:
    case WAIT_ASSOC_GRP_CPU:
    case WAIT_ASSOC_GRP_MEM:
    case WAIT_ASSOC_GRP_NODE:
    case WAIT_ASSOC_GRP_JOB:
    case WAIT_ASSOC_GRP_BILLING:
    case WAIT_ASSOC_GRP_UNK:
    case WAIT_ASSOC_GRP_GRES_RUN_MIN:
    case WAIT_ASSOC_GRP_CPU_RUN_MIN:
    case WAIT_ASSOC_GRP_MEM_RUN_MIN:
    case WAIT_ASSOC_GRP_NODE_RUN_MIN:
    case WAIT_ASSOC_GRP_BILLING_RUN_MIN:
    case WAIT_ASSOC_GRP_UNK_RUN_MIN:
      return ESPALIER_LIMIT_OF_ACCOUNT;
    case WAIT_ASSOC_MAX_JOBS:
      return ESPALIER_LIMIT_OF_USER_IN_ACCOUNT;
    default:
      return ESPALIER_LIMIT_NONE;
  }
}

bool espalier_slurm_beyond_partition_time(uint32_t reason) { return reason == WAIT_PART_TIME_LIMIT; }
