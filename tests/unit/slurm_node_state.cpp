#include "planner/slurm/node_state.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>

TEST_CASE("jobs start on nodes that are idle or in use, and not on those that leave, are away or still boot") {
  CHECK(espalier_slurm_takes_work(NODE_STATE_IDLE) != 0);
  CHECK(espalier_slurm_takes_work(NODE_STATE_MIXED) != 0);
  CHECK(espalier_slurm_takes_work(NODE_STATE_ALLOCATED) != 0);
  CHECK(espalier_slurm_takes_work(NODE_STATE_DOWN) == 0);
  for (const std::uint64_t bit : {NODE_STATE_DRAIN, NODE_STATE_POWERED_DOWN, NODE_STATE_POWERING_DOWN,
                                  NODE_STATE_POWERING_UP, NODE_STATE_POWER_UP}) {
    const auto flag = static_cast<std::uint32_t>(bit);
    CAPTURE(flag);
    CHECK(espalier_slurm_takes_work(NODE_STATE_IDLE | flag) == 0);
    CHECK(espalier_slurm_takes_work(NODE_STATE_MIXED | flag) == 0);
  }
}
