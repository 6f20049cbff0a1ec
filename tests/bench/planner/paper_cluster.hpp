// The jobs of Suika Tab. 1 on a cluster like that of its §5.1.
#pragma once

#include "planner/sim/paper_jobs.hpp"

namespace espalier::bench {

using sim::JobSize;
using sim::paper_batch;
using sim::paper_coefficients;
using sim::paper_job;
using sim::paper_jobs;
using sim::paper_shape;
using sim::PaperJob;

// H100 nodes of 8 GPUs. NVLink has 900 GB/s (a 450 GB/s bus at 80%). Each GPU has one 400 Gb/s rail
// (at 85%). Racks hold `rack_nodes` nodes. Crossing between racks halves the bandwidth.
Site paper_cluster(int nodes, int rack_nodes);

}  // namespace espalier::bench
