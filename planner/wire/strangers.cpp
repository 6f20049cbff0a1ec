#include "planner/wire/strangers.hpp"

#include <algorithm>
#include <map>

namespace espalier::wire {
namespace {
constexpr std::size_t kHonest = 8;  // that one address has at a time
}

void Strangers::add(const std::string& address, const std::shared_ptr<BufferedConnection>& connection) {
  all_.remove_if([](const One& one) {
    const auto held = one.connection.lock();
    return !held || !held->is_stranger();
  });
  const std::string host = address.substr(0, address.rfind(':'));
  all_.push_back({host, connection});
  if (count(host) > of_address_) drop_oldest(host);
  if (all_.size() <= in_all_) return;
  std::map<std::string, std::size_t> counts;
  for (const One& one : all_) ++counts[one.host];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second > kHonest) return drop_oldest(most->first);
  // All launchers may come back at once. Who waits longest is then nearest to the end.
  all_.pop_back();
  connection->drop();
}

std::size_t Strangers::count(const std::string& host) const {
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const One& one) { return one.host == host; }));
}

void Strangers::drop_oldest(const std::string& host) {
  const auto oldest = std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.host == host; });
  if (oldest == all_.end()) return;
  if (const auto held = oldest->connection.lock()) held->drop();
  all_.erase(oldest);
}

}  // namespace espalier::wire
