#include "torchrt/comm/mpi_fabric.hpp"

#include "torchrt/comm/mpi_group.hpp"
#include "torchrt/comm/mpi_transport.hpp"

namespace espalier::torchrt {

namespace {

class MpiFabric : public Fabric {
 public:
  std::unique_ptr<Group> group(const std::vector<int>& members) override {
    if (members.size() == 1) return nullptr;
    return std::make_unique<MpiGroup>(members);
  }
  Transport& transport() override { return transport_; }

 private:
  MpiTransport transport_;
};

}  // namespace

std::unique_ptr<Fabric> make_mpi_fabric() { return std::make_unique<MpiFabric>(); }

}  // namespace espalier::torchrt
