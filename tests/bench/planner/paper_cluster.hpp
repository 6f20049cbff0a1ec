// The jobs of Suika Tab. 1 on a cluster as in its §5.1.
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

// H100 nodes of 8: 900 GB/s NVLink (a 450 GB/s bus at 80%), one 400 Gb/s rail per GPU (at 85%), racks of `rack_nodes`,
// crossing between racks halved.
Site paper_cluster(int nodes, int rack_nodes);

}  // namespace espalier::bench
