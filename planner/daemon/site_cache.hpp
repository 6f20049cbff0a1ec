// The cluster's hardware and topology between decisions: made again only when something in it has changed.
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
  // `documents`: hwloc's XML by node, as far as nodes have reported it.
  explicit SiteCache(const std::map<std::string, std::string>& documents);

  // A node's new document. One that cannot be read is noted, and the node is taken for one without.
  void reported(const std::string& node, const std::string& xml);

  // The same object as long as nodes, reports and overrides are the same. What was assumed goes to the log, each
  // sentence once.
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
  std::shared_ptr<const Site> site_;  // null: to be made
  std::set<std::string> logged_;
};

}  // namespace espalier
