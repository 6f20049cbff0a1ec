#include "torchrt/comm/mpi_transport.hpp"

#include <cstdint>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/comm/mpi_ring.hpp"

namespace espalier::torchrt {

namespace {

// Above the tags of micro-batches in practice, and below the tags of all other messages.
constexpr int kConnectTag = (1 << 20) - 1;

int highest_tag() {
  void* value = nullptr;
  int found = 0;
  must(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found), "MPI_TAG_UB");
  return found ? *static_cast<int*>(value) : 32767;  // the least that the standard promises
}

}  // namespace

MpiTransport::MpiTransport(std::size_t most) : most_(most), highest_tag_(highest_tag()) {}

int MpiTransport::mpi_tag(const Address& address) const {
  const std::int64_t tag = 4 * std::int64_t{address.tag} + static_cast<int>(address.lane);
  if (tag > highest_tag_)
    throw Error("MPI: a message needs tag " + std::to_string(tag) + ", and this MPI ends at " +
                std::to_string(highest_tag_) + " (MPI_TAG_UB); use an MPI with more tags, such as Open MPI");
  return static_cast<int>(tag);
}

void MpiTransport::connect(const Peers& peers) {
  std::size_t most = 0;
  for (const auto& [lane, ranks] : peers) most = std::max(most, ranks.size());
  std::vector<char> out(most, 1), in(most);
  for (const auto& [lane, ranks] : peers) {
    MpiRequests requests("connect", aborted_);
    for (std::size_t i = 0; const int rank : ranks) {
      const int tag = mpi_tag({rank, lane, kConnectTag});
      must(MPI_Irecv(&in[i], 1, MPI_BYTE, rank, tag, MPI_COMM_WORLD, requests.add()), "connect");
      must(MPI_Isend(&out[i++], 1, MPI_BYTE, rank, tag, MPI_COMM_WORLD, requests.add()), "connect");
    }
    requests.wait();
  }
}

void MpiTransport::post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) {
  poll();
  Post& made = posts_.emplace_back();
  made.requests = std::make_unique<MpiRequests>("send", aborted_);
  made.keep = std::move(keep);
  in_pieces(buffer, most_, [&](const Buffer& piece, int count) {
    must(MPI_Isend(piece.data, count, mpi_type(piece.type), to.peer, mpi_tag(to), MPI_COMM_WORLD, made.requests->add()),
         "send");
  });
}

std::unique_ptr<Pending> MpiTransport::start_receive(Buffer buffer, const Address& from) {
  auto requests = std::make_unique<MpiRequests>("receive", aborted_);
  in_pieces(buffer, most_, [&](const Buffer& piece, int count) {
    must(MPI_Irecv(piece.data, count, mpi_type(piece.type), from.peer, mpi_tag(from), MPI_COMM_WORLD, requests->add()),
         "receive");
  });
  return requests;
}

void MpiTransport::drain() {
  for (Post& post : posts_) post.requests->wait();
  posts_.clear();
}

void MpiTransport::poll() {
  if (posts_.empty()) return MpiRing::advance_all();  // as each of them does
  posts_.remove_if([](Post& post) { return post.requests->poll(); });
}

}  // namespace espalier::torchrt
