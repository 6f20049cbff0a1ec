// Keeps the cluster's hardware and topology between decisions. They are made again only when a part
// has changed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/topology/from_view.hpp"

namespace espalier {

class SiteCache {
 public:
  // `documents`: hwloc's XML by node, for the nodes that have reported.
  explicit SiteCache(const std::map<std::string, std::string>& documents);

  // Takes a node's new document. If it cannot be read, a warning is logged and the node counts as
  // not reported.
  void reported(const std::string& node, const std::string& xml);

  // Returns the same object while nodes, reports and overrides stay the same. Each assumption is
  // logged once.
  const std::shared_ptr<const Site>& site(const ClusterView& view, const HardwareOverrides& overrides);

 private:
  struct NodeKey {
    std::string name, gpu_type;
    std::vector<std::string> switches;
    std::size_t gpus = 0;
  };
  bool same_nodes(const ClusterView& view) const;
  void log(const std::vector<std::string>& notes);

  std::map<std::string, NodeHardware> reports_;
  std::map<std::string, std::size_t> seen_;  // hashes of documents
  std::vector<NodeKey> nodes_;
  std::optional<HardwareOverrides> overrides_;
  std::shared_ptr<const Site> site_;  // null: not made yet
  std::set<std::string> logged_;
};

}  // namespace espalier
