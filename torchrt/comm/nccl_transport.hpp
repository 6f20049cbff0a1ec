// Point to point over NCCL. For comm/nccl_*.cpp only.
#pragma once

#include <array>
#include <list>
#include <memory>

#include "torchrt/comm/nccl_calls.hpp"

namespace espalier::torchrt {

// An NCCL send ends only when the receiver is there, and later work on the same communicator waits
// for it. So each lane has its own communicator and stream. Messages of one lane go only one way
// through the pipeline, so no rank waits for itself.
class NcclTransport : public Transport {
 public:
  // By lane.
  explicit NcclTransport(std::array<std::shared_ptr<NcclCommunicator>, 4> communicators);
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
  Line& line(Lane lane) { return lines_[static_cast<std::size_t>(lane)]; }

  struct CudaFree {
    void operator()(float* memory) const { ::cudaFree(memory); }
  };
  std::array<Line, 4> lines_;
  // Memory of connect()'s exchange. It is a member because freeing it waits for the GPU: connect()
  // must not do that when it leaves with an error.
  std::unique_ptr<float, CudaFree> connecting_;
  std::list<Post> posts_;
};

}  // namespace espalier::torchrt
