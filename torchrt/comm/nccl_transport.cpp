#include "torchrt/comm/nccl_transport.hpp"

#include "torchrt/device/cuda_driver.hpp"

namespace espalier::torchrt {

NcclTransport::NcclTransport(std::array<std::shared_ptr<NcclCommunicator>, 4> communicators) {
  for (std::size_t lane = 0; lane < lines_.size(); ++lane) lines_[lane].communicator = std::move(communicators[lane]);
}

// Exchanges all messages of a lane in one NCCL group. So no rank waits for another's turn, whatever
// the order in which they name each other.
void NcclTransport::connect(const Peers& peers) {
  for (const auto& [lane, ranks] : peers) {
    if (ranks.empty()) continue;
    Line& used = line(lane);
    const ncclComm_t comm = used.communicator->get();
    void* made = nullptr;
    must_run(::cudaMalloc(&made, 2 * ranks.size() * sizeof(float)), "connecting ranks");
    connecting_.reset(static_cast<float*>(made));
    float* next = connecting_.get();
    used.communicator->settle(::ncclGroupStart(), "connect");
    for (const int rank : ranks) {
      ::ncclSend(next++, 1, ncclFloat32, rank, comm, used.stream.get());
      ::ncclRecv(next++, 1, ncclFloat32, rank, comm, used.stream.get());
    }
    // Reports every failure since ncclGroupStart.
    used.communicator->settle(::ncclGroupEnd(), "connect");
    StreamMark(used.stream.get(), used.communicator).wait_on_host();
    connecting_.reset();
  }
}

void NcclTransport::post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) {
  Line& used = line(to.lane);
  used.stream.follow_compute();
  used.communicator->settle(::ncclSend(buffer.data, buffer.count, nccl_type(buffer.type), to.peer,
                                       used.communicator->get(), used.stream.get()),
                            "send");
  posts_.push_back({std::make_unique<StreamMark>(used.stream.get(), used.communicator), std::move(keep)});
}

std::unique_ptr<Pending> NcclTransport::start_receive(Buffer buffer, const Address& from) {
  Line& used = line(from.lane);
  used.stream.follow_compute();
  used.communicator->settle(::ncclRecv(buffer.data, buffer.count, nccl_type(buffer.type), from.peer,
                                       used.communicator->get(), used.stream.get()),
                            "receive");
  return std::make_unique<StreamMark>(used.stream.get(), used.communicator);
}

void NcclTransport::drain() {
  for (const Post& post : posts_) post.end->wait_on_host();
  posts_.clear();
}

void NcclTransport::poll() {
  posts_.remove_if([](const Post& post) { return post.end->poll(); });
}

void NcclTransport::abort() {
  for (const Line& line : lines_) line.communicator->abort();
}

}  // namespace espalier::torchrt
