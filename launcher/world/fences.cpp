#include "launcher/world/fences.hpp"

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
constexpr std::size_t kMost = 64;  // that servers have entered and that are not complete
}

std::optional<std::string> Fences::enter(std::size_t place, std::int64_t number, const std::string& data) {
  if (open_.size() >= kMost) throw Error("rank server: too many fences at once");
  auto& entered = open_[number];
  entered[place] = data;
  if (broken_ || entered.size() < places_) return std::nullopt;
  std::string all;
  for (const auto& [from, own] : entered) all += own;
  open_.erase(number);
  return all;
}

std::vector<std::int64_t> Fences::end() {
  broken_ = true;
  std::vector<std::int64_t> numbers;
  for (const auto& [number, entered] : open_) numbers.push_back(number);
  open_.clear();
  return numbers;
}

}  // namespace espalier::launcher
