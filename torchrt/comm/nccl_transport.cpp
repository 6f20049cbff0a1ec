#include "torchrt/comm/nccl_transport.hpp"

namespace espalier::torchrt {

NcclTransport::NcclTransport(std::shared_ptr<NcclCommunicator> forward, std::shared_ptr<NcclCommunicator> backward) {
  forward_.communicator = std::move(forward);
  backward_.communicator = std::move(backward);
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
  forward_.communicator->abort();
  backward_.communicator->abort();
}

}  // namespace espalier::torchrt
