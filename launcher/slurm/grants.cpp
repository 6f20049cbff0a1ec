#include "launcher/slurm/grants.hpp"

#include <algorithm>

namespace espalier::launcher {

void Grants::admit(const std::vector<ExtensionRequest>& requests, const std::vector<std::string>& grants) {
  unused_.clear();
  for (std::size_t i = 0; i < std::min(requests.size(), grants.size()); ++i)
    unused_.push_back({requests[i], grants[i]});
}

std::string Grants::take(const ExtensionRequest& request) {
  const auto found =
      std::find_if(unused_.begin(), unused_.end(), [&](const auto& one) { return one.first == request; });
  if (found == unused_.end()) return "";
  std::string grant = std::move(found->second);
  unused_.erase(found);
  return grant;
}

}  // namespace espalier::launcher
