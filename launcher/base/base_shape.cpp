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

using Nodes = std::vector<const NodeCapacity*>;

// Those with `each` GPUs of the type that the request names, or of a type that it may have.
Nodes able(const std::vector<NodeCapacity>& partition, const std::string& named, const std::set<std::string>& types,
           int each) {
  Nodes nodes;
  for (const NodeCapacity& node : partition) {
    const bool of_type = named.empty() ? types.empty() || types.contains(node.gpu_type) : node.gpu_type == named;
    if (of_type && node.gpus > 0 && node.gpus >= each) nodes.push_back(&node);
  }
  return nodes;
}

Nodes of_type(Nodes nodes, const std::string& type) {
  std::erase_if(nodes, [&](const NodeCapacity* node) { return node->gpu_type != type; });
  return nodes;
}

bool has_several_types(const Nodes& nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const NodeCapacity* node) { return node->gpu_type != nodes.front()->gpu_type; });
}

// The types of which there are `count` of these nodes, the best for a base first.
std::vector<std::string> types_with(const Nodes& nodes, int count, int each) {
  struct Room {
    int nodes = 0, idle = 0, gpus = 0;
  };
  std::map<std::string, Room> rooms;
  for (const NodeCapacity* node : nodes) {
    Room& room = rooms[node->gpu_type];
    ++room.nodes;
    room.idle += node->idle >= each ? 1 : 0;
    room.gpus += node->gpus;
  }
  std::vector<std::string> types;
  for (const auto& [type, room] : rooms)
    if (room.nodes >= count) types.push_back(type);
  std::stable_sort(types.begin(), types.end(), [&](const std::string& a, const std::string& b) {
    const Room &one = rooms.at(a), &other = rooms.at(b);
    const bool now = one.idle >= count, other_now = other.idle >= count;
    return now != other_now ? now : one.gpus > other.gpus;
  });
  return types;
}

std::vector<std::string> all_but(const std::vector<NodeCapacity>& partition, const Nodes& nodes) {
  std::set<std::string> names;
  for (const NodeCapacity& node : partition) names.insert(node.name);
  for (const NodeCapacity* node : nodes) names.erase(node->name);
  return {names.begin(), names.end()};
}

// CPUs and memory fit each of the nodes, so that the base can also run on those of another type, where it may be
// steered or moved to.
BaseShape shape_on(const Nodes& nodes, int count, int each, const std::string& named) {
  BaseShape shape;
  shape.type = named;
  shape.nodes = count;
  shape.gpus_per_node = each;
  shape.cpus_per_node = std::numeric_limits<int>::max();
  shape.memory_mb_per_node = std::numeric_limits<long>::max();
  for (const NodeCapacity* node : nodes) {
    const int cpus = std::max(each, node->cpus * each / (node->gpus + 1));
    shape.cpus_per_node = std::min({shape.cpus_per_node, cpus, std::max(1, node->cpus)});
    shape.memory_mb_per_node =
        std::min(shape.memory_mb_per_node, std::max(1L, node->memory_mb * each / (node->gpus + 1)));
  }
  return shape;
}

}  // namespace

std::vector<BaseShape> base_shapes(int gpus, const std::vector<NodeCapacity>& partition, const BaseTypes& types) {
  const std::string named = type_to_name(partition, types.allowed);
  std::vector<BaseShape> shapes;
  const auto add = [&](const Nodes& able, const Nodes& nodes, int count, int each) {
    shapes.push_back(shape_on(able, count, each, named));
    shapes.back().excluded = all_but(partition, nodes);
  };
  for (int each = gpus; each >= 1 && shapes.empty(); --each) {
    if (gpus % each != 0) continue;
    const Nodes nodes = able(partition, named, types.allowed, each);
    if (each == gpus && !nodes.empty()) add(nodes, nodes, 1, each);  // a node has one type anyway
    else
      for (const std::string& type : types_with(nodes, gpus / each, each))
        add(nodes, of_type(nodes, type), gpus / each, each);
  }
  bool would_mix = false;
  for (int each = gpus; each >= 1 && shapes.empty() && !would_mix; --each) {
    const Nodes nodes = able(partition, named, types.allowed, each);
    if (gpus % each != 0 || static_cast<int>(nodes.size()) < gpus / each) continue;
    if (types.mixed) add(nodes, nodes, gpus / each, each);
    else would_mix = true;
  }
  if (shapes.empty())
    throw Error("its partition has no nodes for " + std::to_string(gpus) + " GPUs" +
                (would_mix ? " of one type, which accuracy=bitwise needs (accuracy=relaxed may mix types),"
                 : types.allowed.empty() ? ""
                                         : " of type " + joined(types.allowed)) +
                " with the same number of them on each node");
  return shapes;
}

BaseShape base_shape(int gpus, const std::vector<NodeCapacity>& partition, const BaseTypes& types) {
  return base_shapes(gpus, partition, types).front();
}

std::vector<std::string> excluded_but(const std::vector<std::string>& only, const BaseShape& shape,
                                      const std::vector<NodeCapacity>& partition, const BaseTypes& types) {
  const std::set<std::string> names(only.begin(), only.end());
  Nodes nodes = able(partition, shape.type, types.allowed, shape.gpus_per_node);
  if (!names.empty()) std::erase_if(nodes, [&](const NodeCapacity* node) { return !names.contains(node->name); });
  if (static_cast<int>(nodes.size()) < shape.nodes)
    throw Error("it needs " + std::to_string(shape.nodes) + " node(s) with " + std::to_string(shape.gpus_per_node) +
                " GPU(s) each" + (shape.type.empty() ? "" : " of type " + shape.type) + ", and of these nodes " +
                std::to_string(nodes.size()) + " have them");
  if (shape.nodes > 1 && has_several_types(nodes)) {
    const auto fit = types_with(nodes, shape.nodes, shape.gpus_per_node);
    if (!fit.empty()) nodes = of_type(nodes, fit.front());
    else if (!types.mixed)
      throw Error("it needs " + std::to_string(shape.nodes) +
                  " node(s) with GPUs of one type, as accuracy=bitwise keeps the type, and these nodes are of several");
  }
  return all_but(partition, nodes);
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
