#include "torchrt/handoff/transfer/routes.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

class Router {
 public:
  Router(const TransferPlan& plan, const TransferRequest& request)
      : plan_(plan), old_gpus_(request.before.ranks()), new_gpus_(request.after.ranks()) {
    for (std::size_t r = 0; r < old_gpus_.size(); ++r) old_on_[old_gpus_[r].node].push_back(static_cast<int>(r));
    for (std::size_t r = 0; r < new_gpus_.size(); ++r)
      if (old_on_.count(new_gpus_[r].node) != 0) relays_.push_back(static_cast<int>(r));
    landed_.assign(old_gpus_.size(), 0);
    routes_.relay_bytes.assign(new_gpus_.size(), 0);
  }

  Routes run() {
    std::vector<int> place(plan_.messages().size(), -1);  // in the new world
    for (std::size_t m = 0; m < plan_.messages().size(); ++m) {
      Message message = plan_.messages()[m];
      const bool donated = plan_.is_donor(message.sender);
      if (donated) {
        message.sender = plan_.donor(message.sender);
        if (old_on_.count(node(message.receiver)) != 0) {
          land(message, message.receiver);
          continue;
        }
        message = relay(message);
      }
      if (message.after >= 0) message.after = place[static_cast<std::size_t>(message.after)];
      place[m] = static_cast<int>(routes_.new_world.size());
      routes_.new_world.push_back(message);
    }
    return std::move(routes_);
  }

 private:
  const std::string& node(int new_rank) const { return new_gpus_[static_cast<std::size_t>(new_rank)].node; }

  // The old rank on the GPU of `new_rank` receives. Without one, the old rank on its node that has
  // received least does.
  void land(Message message, int new_rank) {
    const std::vector<int>& candidates = old_on_.at(node(new_rank));
    message.receiver = *std::min_element(candidates.begin(), candidates.end(), [&](int a, int b) {
      const GpuId& gpu = new_gpus_[static_cast<std::size_t>(new_rank)];
      const bool a_own = old_gpus_[static_cast<std::size_t>(a)] == gpu,
                 b_own = old_gpus_[static_cast<std::size_t>(b)] == gpu;
      return a_own != b_own ? a_own : landed_[static_cast<std::size_t>(a)] < landed_[static_cast<std::size_t>(b)];
    });
    landed_[static_cast<std::size_t>(message.receiver)] += message.piece.bytes;
    routes_.old_world.push_back(message);
  }

  // Returns the message that is left to do in the new world.
  Message relay(const Message& message) {
    if (relays_.empty())
      throw Error("hand-off: the old and the new plan share no node; keep one GPU on a node of the old plan");
    std::vector<std::size_t>& held = routes_.relay_bytes;
    const int rank = *std::min_element(relays_.begin(), relays_.end(), [&](int a, int b) {
      return held[static_cast<std::size_t>(a)] < held[static_cast<std::size_t>(b)];
    });
    Message first = message, second = message;
    first.to = second.from = {false, rank, kRelay};
    first.relay_at = second.relay_at = held[static_cast<std::size_t>(rank)];
    held[static_cast<std::size_t>(rank)] += message.piece.bytes;
    second.sender = rank;
    land(first, rank);
    return second;
  }

  const TransferPlan& plan_;
  std::vector<GpuId> old_gpus_, new_gpus_;
  std::map<std::string, std::vector<int>> old_on_;  // ranks by node
  std::vector<int> relays_;                         // new ranks on nodes of both
  std::vector<std::size_t> landed_;                 // bytes, by old rank
  Routes routes_;
};

}  // namespace

bool leaves_nodes(const Plan& before, const Plan& after) {
  std::set<std::string> stay;
  for (const GpuId& gpu : after.ranks()) stay.insert(gpu.node);
  const std::vector<GpuId> ranks = before.ranks();
  return std::any_of(ranks.begin(), ranks.end(), [&](const GpuId& gpu) { return !stay.contains(gpu.node); });
}

Routes make_routes(const TransferPlan& plan, const TransferRequest& request) { return Router(plan, request).run(); }

}  // namespace espalier::torchrt
