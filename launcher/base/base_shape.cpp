#include "launcher/base/base_shape.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " or ") + word;
  return text;
}

// Where a node has GPUs of several types, a request without a type may be given any of them. The base then names one:
// of those that it may have, the one with the most GPUs, then the first by name. Empty: no node has several.
std::string type_to_name(const std::vector<NodeCapacity>& partition, const std::set<std::string>& types) {
  std::map<std::string, int> gpus;
  bool several = false;
  for (const NodeCapacity& node : partition) {
    if (node.gpus == 0 || (!types.empty() && !types.contains(node.gpu_type))) continue;
    gpus[node.gpu_type] += node.gpus;
    several = several || node.several_types;
  }
  if (!several) return "";
  return std::max_element(gpus.begin(), gpus.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

BaseShape base_shape(int gpus, const std::vector<NodeCapacity>& partition, const std::set<std::string>& types) {
  BaseShape shape;
  shape.type = type_to_name(partition, types);
  std::vector<const NodeCapacity*> fit;
  for (const NodeCapacity& node : partition) {
    const bool of_type =
        shape.type.empty() ? types.empty() || types.contains(node.gpu_type) : node.gpu_type == shape.type;
    if (node.gpus > 0 && of_type) fit.push_back(&node);
    else shape.excluded.push_back(node.name);
  }
  const auto with = [&](int least) {
    return static_cast<int>(
        std::count_if(fit.begin(), fit.end(), [&](const NodeCapacity* node) { return node->gpus >= least; }));
  };
  for (int each = gpus; each >= 1 && shape.nodes == 0; --each)
    if (gpus % each == 0 && with(each) >= gpus / each) {
      shape.gpus_per_node = each;
      shape.nodes = gpus / each;
    }
  if (shape.nodes == 0)
    throw Error("its partition has no nodes for " + std::to_string(gpus) + " GPUs" +
                (types.empty() ? "" : " of type " + joined(types)) + " with the same number of them on each node");
  shape.cpus_per_node = std::numeric_limits<int>::max();
  shape.memory_mb_per_node = std::numeric_limits<long>::max();
  for (const NodeCapacity* node : fit) {
    if (node->gpus < shape.gpus_per_node) {
      shape.excluded.push_back(node->name);
      continue;
    }
    const int cpus = std::max(shape.gpus_per_node, node->cpus * shape.gpus_per_node / (node->gpus + 1));
    shape.cpus_per_node = std::min({shape.cpus_per_node, cpus, std::max(1, node->cpus)});
    shape.memory_mb_per_node =
        std::min(shape.memory_mb_per_node, std::max(1L, node->memory_mb * shape.gpus_per_node / (node->gpus + 1)));
  }
  std::sort(shape.excluded.begin(), shape.excluded.end());
  return shape;
}

std::vector<std::string> excluded_but(const std::vector<std::string>& only, const BaseShape& shape,
                                      const std::vector<NodeCapacity>& partition, const std::set<std::string>& types) {
  const std::set<std::string> named(only.begin(), only.end());
  std::vector<std::string> excluded;
  for (const NodeCapacity& node : partition) {
    const bool of_type =
        shape.type.empty() ? types.empty() || types.contains(node.gpu_type) : node.gpu_type == shape.type;
    if (!of_type || node.gpus < shape.gpus_per_node || (!named.empty() && !named.contains(node.name)))
      excluded.push_back(node.name);
  }
  const auto left = static_cast<int>(partition.size() - excluded.size());
  if (left < shape.nodes)
    throw Error("it needs " + std::to_string(shape.nodes) + " node(s) with " + std::to_string(shape.gpus_per_node) +
                " GPU(s) each" + (shape.type.empty() ? "" : " of type " + shape.type) + ", and of these nodes " +
                std::to_string(left) + " have them");
  std::sort(excluded.begin(), excluded.end());
  return excluded;
}

BaseShape same_per_gpu(const BaseShape& shape, int nodes, int gpus_per_node) {
  BaseShape made;
  made.nodes = nodes;
  made.gpus_per_node = gpus_per_node;
  made.cpus_per_node = std::max(1, shape.cpus_per_node * gpus_per_node / shape.gpus_per_node);
  made.memory_mb_per_node = std::max(1L, shape.memory_mb_per_node * gpus_per_node / shape.gpus_per_node);
  return made;
}

}  // namespace espalier::launcher
