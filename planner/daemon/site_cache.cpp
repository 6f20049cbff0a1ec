#include "planner/daemon/site_cache.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>

namespace espalier {

SiteCache::SiteCache(const std::map<std::string, std::string>& documents) {
  std::vector<std::string> notes;
  reports_ = read_reports(documents, notes);
  for (const auto& [node, xml] : documents) seen_[node] = std::hash<std::string>()(xml);
  log(notes);
}

void SiteCache::reported(const std::string& node, const std::string& xml) {
  const std::size_t hash = std::hash<std::string>()(xml);
  const auto [known, fresh] = seen_.try_emplace(node, hash);
  if (!fresh && known->second == hash) return;
  known->second = hash;
  std::vector<std::string> notes;
  auto read = read_reports({{node, xml}}, notes);
  reports_.erase(node);
  reports_.merge(read);
  log(notes);
  site_.reset();
}

bool SiteCache::same_nodes(const ClusterView& view) const {
  return std::equal(view.nodes.begin(), view.nodes.end(), nodes_.begin(), nodes_.end(),
                    [](const NodeView& now, const NodeKey& was) {
                      return now.name == was.name && now.gpu_type == was.gpu_type && now.switches == was.switches &&
                             now.gpu_owner.size() == was.gpus;
                    });
}

const std::shared_ptr<const Site>& SiteCache::site(const ClusterView& view, const HardwareOverrides& overrides) {
  if (site_ && overrides_ == overrides && same_nodes(view)) return site_;
  SiteView made = site_from_view(view, reports_, overrides);
  nodes_.clear();
  for (const NodeView& node : view.nodes)
    nodes_.push_back({node.name, node.gpu_type, node.switches, node.gpu_owner.size()});
  overrides_ = overrides;
  site_ = std::make_shared<const Site>(std::move(made.site));
  log(made.notes);
  return site_;
}

void SiteCache::log(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    if (logged_.insert(note).second) spdlog::warn("{}", note);
}

}  // namespace espalier
