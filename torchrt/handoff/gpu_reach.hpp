// Which GPUs' memory a process can map. Slurm gives a process only its own job's GPUs (ConstrainDevices), and CUDA maps
// memory only of GPUs that the process can see. So two Slurm jobs on one node are like two nodes.
#pragma once

#include "planner/wire/messages.hpp"
#include "torchrt/device/device.hpp"

namespace espalier::torchrt {

// For GPU memory: the plan with another node name for each Slurm job of a node. A GPU of no job is a node of its own:
// its memory is out of reach. For host memory, or if `jobs` is empty: the plan itself. Pure.
Plan as_reached(const Plan& plan, DeviceKind device, const wire::GpuJobs& jobs);

// For host memory that ranks of `plan` left on their nodes, for the ranks of `after`: every process of a node reads it,
// whatever its Slurm job. The node names are those of as_reached(after). Where several jobs of a node have ranks in
// `after`, the memory counts as that of the job that left it, or else of the first of them; the other jobs' GPUs get it
// by messages, because none of them reaches another's GPU. Pure.
Plan host_memory_as_reached(const Plan& plan, const Plan& after, DeviceKind device, const wire::GpuJobs& jobs);

}  // namespace espalier::torchrt
