#include "torchrt/comm/mpi_transport.hpp"

namespace espalier::torchrt {

namespace {

int mpi_tag(const Address& address) { return 2 * address.tag + (address.lane == Lane::backward ? 1 : 0); }

}  // namespace

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
  posts_.remove_if([](Post& post) { return post.requests->poll(); });
}

}  // namespace espalier::torchrt
