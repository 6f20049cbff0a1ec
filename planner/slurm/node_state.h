/* What a node's state says. Needs libslurm's header only. */
#ifndef ESPALIER_SLURM_NODE_STATE_H
#define ESPALIER_SLURM_NODE_STATE_H

#include <slurm/slurm.h>
#include <stdint.h>

/* Whether Slurm starts jobs on a node in this state (node_info_t's node_state) as soon as it has room, and their
 * processes at once. On a node that is powering up they start when it has booted, minutes later. */
static inline int espalier_slurm_takes_work(uint32_t state) {
  const uint32_t away = NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND | NODE_STATE_POWERED_DOWN |
                        NODE_STATE_POWERING_DOWN | NODE_STATE_POWER_UP | NODE_STATE_POWERING_UP | NODE_STATE_MAINT |
                        NODE_STATE_REBOOT_REQUESTED | NODE_STATE_REBOOT_ISSUED | NODE_STATE_INVALID_REG;
  const uint32_t base = state & NODE_STATE_BASE;
  return (state & away) == 0 && (base == NODE_STATE_IDLE || base == NODE_STATE_ALLOCATED || base == NODE_STATE_MIXED);
}

#endif
