// The form of a movable job's base: how many nodes, and what of each. Pure.
//
//   const BaseShape shape = base_shape(gpus_wanted, nodes_of_the_partition, types);
//
// A base has the same number of GPUs on each of its nodes. So one plain request (--nodes=N --gres=gpu:K) describes it,
// steps can ask for all GPUs of a node, and Slurm chooses the nodes. (Tried on 22.05: a job with --gpus=6 on nodes of 4
// gets 4 + 2, and then refuses a step with --gres=gpu:4.)
#pragma once

#include <set>
#include <string>
#include <vector>

namespace espalier::launcher {

struct NodeCapacity {
  std::string name;
  std::string gpu_type;  // empty: untyped
  int gpus = 0;          // in total, in use or not
  int cpus = 0;
  long memory_mb = 0;
  bool several_types = false;  // it has GPUs of other types, too, which no base gets
  int idle = 0;                // GPUs that a job could get now
};

struct BaseShape {
  int nodes = 0, gpus_per_node = 0, cpus_per_node = 0;
  long memory_mb_per_node = 0;
  std::string type = {};              // of GPUs, that the request names; empty: it names none
  std::vector<std::string> excluded;  // nodes of the partition that the base must not get; sorted
};

// Which GPUs a base may have.
struct BaseTypes {
  std::set<std::string> allowed = {};  // types; empty: any
  bool mixed = false;                  // its nodes may differ in type, where no one type has enough of them
};

// The forms that the base may have, the best first; there is at least one. A base of several nodes has GPUs of one
// type: there is a form for each type that can hold it. The best type is one that has the GPUs idle now, then that with
// the most GPUs, then the first by name. The base gets as few nodes as can be. CPUs and memory are in proportion to
// GPUs, with as much as one more GPU's share left to others on each node, e.g. to the submitted job itself. Where a
// node has several GPU types, the base names one type and gets only that. Throws Error when no nodes can hold the base.
std::vector<BaseShape> base_shapes(int gpus, const std::vector<NodeCapacity>& partition, const BaseTypes& types);
// The best of them.
BaseShape base_shape(int gpus, const std::vector<NodeCapacity>& partition, const BaseTypes& types);

// The nodes of the partition that a base of this form must not get so that it gets only nodes of `only` (empty: any),
// and of one type as base_shapes() has it; sorted. Throws Error when too few are left for it.
std::vector<std::string> excluded_but(const std::vector<std::string>& only, const BaseShape& shape,
                                      const std::vector<NodeCapacity>& partition, const BaseTypes& types);

// So many nodes with so many GPUs each, and as many CPUs and as much memory for each GPU as `shape` has. Names no type.
BaseShape same_per_gpu(const BaseShape& shape, int nodes, int gpus_per_node);

}  // namespace espalier::launcher
