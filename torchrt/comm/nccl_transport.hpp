// Point to point over NCCL. For comm/nccl_*.cpp only.
#pragma once

#include <list>
#include <memory>

#include "torchrt/comm/nccl_calls.hpp"

namespace espalier::torchrt {

// A send of NCCL's ends when the receiver is there, and what comes after it on the communicator waits. So each lane has
// a communicator and a stream of its own: through a pipeline messages of one lane go one way only, and no rank waits
// for itself.
class NcclTransport : public Transport {
 public:
  NcclTransport(std::shared_ptr<NcclCommunicator> forward, std::shared_ptr<NcclCommunicator> backward);
  void connect(const Peers& peers) override;
  void post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) override;
  std::unique_ptr<Pending> start_receive(Buffer buffer, const Address& from) override;
  void drain() override;
  void poll() override;
  void abort() override;

 private:
  struct Line {
    std::shared_ptr<NcclCommunicator> communicator;
    CudaStream stream;
  };
  struct Post {
    std::unique_ptr<StreamMark> end;
    std::shared_ptr<const void> keep;
  };
  Line& line(Lane lane) { return lane == Lane::forward ? forward_ : backward_; }

  struct CudaFree {
    void operator()(float* memory) const { ::cudaFree(memory); }
  };
  Line forward_, backward_;
  // What connect() exchanges. Here, as who frees it waits for the GPU: not while an error is on its way.
  std::unique_ptr<float, CudaFree> connecting_;
  std::list<Post> posts_;
};

}  // namespace espalier::torchrt
