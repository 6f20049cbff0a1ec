#include "torchrt/comm/nccl_fabric.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/core/error.hpp"
#include "torchrt/comm/nccl_group.hpp"
#include "torchrt/comm/nccl_transport.hpp"

namespace espalier::torchrt {

namespace {

class NcclFabric : public Fabric {
 public:
  NcclFabric(World& world, OrderedSum ordered_sum) : rank_(world.rank()), ordered_sum_(std::move(ordered_sum)) {
    ncclUniqueId id{};
    bool made = true;
    if (rank_ == 0) made = ::ncclGetUniqueId(&id) == ncclSuccess;
    if (world.minimum(made ? 1 : 0) == 0) throw Error("NCCL: rank 0 cannot open a socket; see NCCL_SOCKET_IFNAME");
    world.broadcast({id.internal, sizeof id.internal});
    world_ = NcclCommunicator::start(id, rank_, world.size());
  }

  std::unique_ptr<Group> group(const std::vector<int>& members) override {
    connect();
    const bool alone = members.size() == 1;
    std::shared_ptr<NcclCommunicator> communicator = world_->split(alone ? -1 : members.front(), rank_);
    if (alone) return nullptr;
    const auto self = std::find(members.begin(), members.end(), rank_);
    return std::make_unique<NcclGroup>(std::move(communicator), static_cast<int>(self - members.begin()),
                                       static_cast<int>(members.size()), ordered_sum_);
  }

  Transport& transport() override {
    connect();
    return *transport_;
  }

 private:
  // The world's communicator serves the forward lane, copies of it serve the other lanes.
  void connect() {
    if (transport_) return;
    std::array<std::shared_ptr<NcclCommunicator>, 4> lanes{world_};
    for (std::size_t lane = 1; lane < lanes.size(); ++lane) lanes[lane] = world_->split(0, rank_);
    transport_.emplace(std::move(lanes));
  }

  int rank_;
  OrderedSum ordered_sum_;
  std::shared_ptr<NcclCommunicator> world_;
  std::optional<NcclTransport> transport_;
};

}  // namespace

std::unique_ptr<Fabric> make_nccl_fabric(World& world, OrderedSum ordered_sum) {
  return std::make_unique<NcclFabric>(world, std::move(ordered_sum));
}

}  // namespace espalier::torchrt
