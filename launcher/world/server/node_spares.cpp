#include "launcher/world/server/node_spares.hpp"

#include <algorithm>
#include <utility>

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kForks{10'000};
}  // namespace

NodeSpares::NodeSpares(wire::Loop& loop, Callbacks callbacks, std::chrono::milliseconds longest_load)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      longest_load_(longest_load),
      orphans_(loop),
      ranks_(loop, {[this] { look(); }, callbacks_.can_fork}) {}

// The program of generation 0 may be one that knows nothing of spares.
SpareRanks::Soon NodeSpares::soon(const wire::RunRanks& request) {
  const auto& ranks = request.places.at(static_cast<std::size_t>(request.here)).ranks;
  return request.first ? SpareRanks::Soon::no : ranks_.soon(ranks.size(), request.program, request.folder);
}

void NodeSpares::run(wire::RunRanks request) {
  const SpareRanks::Soon how = soon(request);
  if (how == SpareRanks::Soon::no) {
    ranks_.hold();
    return callbacks_.start(request);
  }
  if (how == SpareRanks::Soon::forks && !limit_)
    limit_ = loop_.after(kForks, [this] {
      limit_.reset();  // a request that comes later has a limit of its own
      ranks_.give_up();
    });
  if (waiting_.empty() && how == SpareRanks::Soon::loads) since_ = std::chrono::steady_clock::now();
  waiting_.push_back(std::move(request));
}

void NodeSpares::look() {
  const auto since = since_;
  for (wire::RunRanks& request : std::exchange(waiting_, {})) run(std::move(request));
  since_ = since;
  if (waiting_.empty()) limit_.reset();
}

bool NodeSpares::awaits(int generation) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const wire::RunRanks& one) { return one.generation == generation; });
}

// A program that hangs while it loads costs the generation that has waited for it. The next one does not wait. A
// generation may also end soon for another reason; then what loads goes on.
bool NodeSpares::forget(int generation) {
  const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                               [&](const wire::RunRanks& one) { return one.generation == generation; });
  if (at == waiting_.end()) return false;
  waiting_.erase(at);
  if (!waiting_.empty()) return true;
  limit_.reset();
  if (ranks_.is_loading() && std::chrono::steady_clock::now() - since_ >= longest_load_) ranks_.give_up();
  return true;
}

}  // namespace espalier::launcher
