// Schedules as text: the CSV of torch.distributed.pipelining, one row a rank, one cell an action. Pure.
//
//     0F0,0F1,,0B0,,0B1
//     ,1F0,1B0,1F1,1B1
#pragma once

#include <string>

#include "planner/core/pipeline/schedule.hpp"

namespace espalier::pipeline {

// Reads lists of computations, and lists with communication as torch writes them (0SEND_F1, 1RECV_B0, 0UNSHARD,
// 0RESHARD, 0REDUCE_GRAD). Communication is dropped: it follows from the computations. A pair such as
// (0F3;1B2)OVERLAP_F_B is read as its parts in turn. Empty cells mean nothing. The schedule returned is sound. Throws
// Error that names row and column, counted from 1, and the reason.
Schedule read_csv(const std::string& text);

// Every action in the next cell, without empty ones. torch's reader takes it as a schedule of format "compute_only".
std::string write_csv(const Schedule& schedule);

}  // namespace espalier::pipeline
