#include "torchrt/comm/nccl_group.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/device/cuda_driver.hpp"

namespace espalier::torchrt {

namespace {

bool equal(std::span<const Range> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Range& part) { return part.count == parts[0].count; });
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<NcclCommunicator> communicator, int rank, int size, OrderedSum ordered_sum)
    : communicator_(std::move(communicator)), rank_(rank), size_(size), ordered_sum_(std::move(ordered_sum)) {}

NcclGroup::~NcclGroup() { ::cudaFree(received_); }

// The same steps as MpiGroup's: get all members' values of the own part, add them in the members'
// order, exchange the sums.
void NcclGroup::sum(Buffer buffer) {
  if (!ordered_sum_) {
    communicator_->settle(::ncclAllReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.type), ncclSum,
                                          communicator_->get(), kComputeStream),
                          "sum");
    return;
  }
  const std::size_t members = static_cast<std::size_t>(size_), self = static_cast<std::size_t>(rank_);
  const auto part = [&](std::size_t member) {
    const std::size_t first = buffer.count * member / members;
    return buffer.part(first, buffer.count * (member + 1) / members - first);
  };
  const Buffer own = part(self);
  if (received_bytes_ < own.bytes() * members) {
    must_run(::cudaStreamSynchronize(kComputeStream), "ordered sum");
    ::cudaFree(received_);
    received_ = nullptr;
    received_bytes_ = own.bytes() * members;
    must_run(::cudaMalloc(&received_, received_bytes_), "ordered sum");
  }
  std::vector<Buffer> parts(members);
  const ncclDataType_t type = nccl_type(buffer.type);
  const ncclComm_t comm = communicator_->get();
  const auto exchange = [&](const auto& send, const auto& receive) {
    communicator_->settle(::ncclGroupStart(), "ordered sum");
    for (std::size_t peer = 0; peer < members; ++peer) {
      if (peer == self) continue;
      const Buffer out = send(peer), in = receive(peer);
      ::ncclSend(out.data, out.count, type, static_cast<int>(peer), comm, kComputeStream);
      ::ncclRecv(in.data, in.count, type, static_cast<int>(peer), comm, kComputeStream);
    }
    // Reports every failure since ncclGroupStart.
    communicator_->settle(::ncclGroupEnd(), "ordered sum");
  };
  for (std::size_t peer = 0; peer < members; ++peer)
    parts[peer] = peer == self ? own : Buffer{static_cast<char*>(received_) + peer * own.bytes(), own.count, own.type};
  exchange(part, [&](std::size_t peer) { return parts[peer]; });
  ordered_sum_(parts, own);
  exchange([&](std::size_t) { return own; }, part);
}

void NcclGroup::max(Buffer buffer) {
  communicator_->settle(::ncclAllReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.type), ncclMax,
                                        communicator_->get(), kComputeStream),
                        "maximum");
}

std::unique_ptr<Pending> NcclGroup::start_sum(Buffer buffer) {
  stream_.follow_compute();
  communicator_->settle(::ncclAllReduce(buffer.data, buffer.data, buffer.count, nccl_type(buffer.type), ncclSum,
                                        communicator_->get(), stream_.get()),
                        "sum over replicas");
  return mark();
}

std::unique_ptr<Pending> NcclGroup::start_reduce_scatter(Buffer all, std::span<const Range> parts) {
  ESPALIER_INVARIANT(parts.size() == static_cast<std::size_t>(size_));
  const char* what = "sum over replicas, scattered";
  const ncclDataType_t type = nccl_type(all.type);
  stream_.follow_compute();
  if (equal(parts)) {
    const Buffer own = all.part(parts[static_cast<std::size_t>(rank_)]);
    communicator_->settle(
        ::ncclReduceScatter(all.data, own.data, own.count, type, ncclSum, communicator_->get(), stream_.get()), what);
    return mark();
  }
  communicator_->settle(::ncclGroupStart(), what);
  for (int root = 0; root < size_; ++root) {
    const Buffer part = all.part(parts[static_cast<std::size_t>(root)]);
    if (part.count > 0)
      ::ncclReduce(part.data, part.data, part.count, type, ncclSum, root, communicator_->get(), stream_.get());
  }
  communicator_->settle(::ncclGroupEnd(), what);
  return mark();
}

std::unique_ptr<Pending> NcclGroup::start_gather(Buffer all, std::span<const Range> parts) {
  ESPALIER_INVARIANT(parts.size() == static_cast<std::size_t>(size_));
  const char* what = "gather over replicas";
  const ncclDataType_t type = nccl_type(all.type);
  stream_.follow_compute();
  if (equal(parts)) {
    const Buffer own = all.part(parts[static_cast<std::size_t>(rank_)]);
    communicator_->settle(::ncclAllGather(own.data, all.data, own.count, type, communicator_->get(), stream_.get()),
                          what);
    return mark();
  }
  communicator_->settle(::ncclGroupStart(), what);
  for (int root = 0; root < size_; ++root) {
    const Buffer part = all.part(parts[static_cast<std::size_t>(root)]);
    if (part.count > 0)
      ::ncclBroadcast(part.data, part.data, part.count, type, root, communicator_->get(), stream_.get());
  }
  communicator_->settle(::ncclGroupEnd(), what);
  return mark();
}

}  // namespace espalier::torchrt
