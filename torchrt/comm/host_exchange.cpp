#include "torchrt/comm/host_exchange.hpp"

#include <mpi.h>

#include <algorithm>

#include "torchrt/comm/mpi_requests.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kMost = std::size_t{1} << 30;

}  // namespace

struct HostExchange::State {
  MPI_Comm communicator = MPI_COMM_NULL;
  std::vector<MPI_Request> requests;
  std::vector<std::shared_ptr<const void>> memory;
};

HostExchange::HostExchange() : state_(std::make_unique<State>()) {
  const Waiting waiting(Waiting::Kind::sleeps);
  must(MPI_Comm_dup(MPI_COMM_WORLD, &state_->communicator), "snapshots");
  MPI_Comm_set_errhandler(state_->communicator, MPI_ERRORS_RETURN);
}

HostExchange::~HostExchange() {
  static std::vector<std::unique_ptr<State>> unfinished;
  if (!state_->requests.empty()) unfinished.push_back(std::move(state_));
}

void HostExchange::send(int peer, std::shared_ptr<const void> memory, const void* data, std::size_t bytes) {
  for (std::size_t first = 0; first < bytes; first += kMost)
    must(MPI_Isend(static_cast<const char*>(data) + first, static_cast<int>(std::min(kMost, bytes - first)), MPI_BYTE,
                   peer, 0, state_->communicator, &state_->requests.emplace_back(MPI_REQUEST_NULL)),
         "snapshot");
  state_->memory.push_back(std::move(memory));
}

void HostExchange::receive(int peer, std::shared_ptr<const void> memory, void* data, std::size_t bytes) {
  for (std::size_t first = 0; first < bytes; first += kMost)
    must(MPI_Irecv(static_cast<char*>(data) + first, static_cast<int>(std::min(kMost, bytes - first)), MPI_BYTE, peer,
                   0, state_->communicator, &state_->requests.emplace_back(MPI_REQUEST_NULL)),
         "snapshot");
  state_->memory.push_back(std::move(memory));
}

bool HostExchange::poll() {
  if (state_->requests.empty()) return true;
  const Waiting waiting(Waiting::Kind::returns);
  int done = 0;
  must(MPI_Testall(static_cast<int>(state_->requests.size()), state_->requests.data(), &done, MPI_STATUSES_IGNORE),
       "snapshot");
  if (done == 0) return false;
  state_->requests.clear();
  state_->memory.clear();
  return true;
}

}  // namespace espalier::torchrt
