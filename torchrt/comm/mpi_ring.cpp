#include "torchrt/comm/mpi_ring.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>

#include "torchrt/comm/mpi_requests.hpp"
#include "torchrt/comm/peer_error.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

thread_local std::vector<MpiRing*> under_way;
// Of rings that were given up: a peer's message may still arrive.
thread_local std::vector<std::vector<char>> given_up;

}  // namespace

MpiRing::MpiRing(MPI_Comm comm, int tag, Buffer all, std::vector<Range> parts, Steps steps, const char* what,
                 std::shared_ptr<const bool> aborted)
    : comm_(comm),
      tag_(tag),
      all_(all),
      parts_(std::move(parts)),
      what_(what),
      aborted_(std::move(aborted)),
      errors_(std::uncaught_exceptions()) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks_);
  sums_ = ranks_ - 1;
  step_ = steps.sum ? 0 : sums_;
  last_ = steps.gather ? 2 * sums_ : sums_;
  if (steps.sum) {
    std::int64_t most = 0;
    for (const Range& part : parts_) most = std::max(most, part.count);
    received_.resize(static_cast<std::size_t>(most) * size_of(all_.type));
  }
  if (done()) return;
  begin_step();
  under_way.push_back(this);
}

MpiRing::~MpiRing() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!done() && !finalized && std::uncaught_exceptions() == errors_) {
    try {
      wait();
    } catch (const Error&) {  // a caller that needs the result has waited before
    }
  }
  if (!done()) given_up.push_back(std::move(received_));
  std::erase(under_way, this);
}

Buffer MpiRing::part_before(int steps) const {
  return all_.part(parts_[static_cast<std::size_t>(((rank_ - steps) % ranks_ + ranks_) % ranks_)]);
}

// A sum ends at the rank that its part belongs to, and begins at the one after it. A gathered part begins where it
// ended.
void MpiRing::begin_step() {
  const bool adds = step_ < sums_;
  const int round = adds ? step_ + 1 : step_ - sums_;
  const Buffer out = part_before(round), in = part_before(round + 1);
  const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
  const MPI_Datatype type = mpi_type(all_.type);
  must(MPI_Irecv(adds ? received_.data() : in.data, static_cast<int>(in.count), type, before, tag_, comm_,
                 &requests_[0]),
       what_);
  must(MPI_Isend(out.data, static_cast<int>(out.count), type, next, tag_, comm_, &requests_[1]), what_);
}

// The step's messages are there and sent.
void MpiRing::end_step() {
  if (step_ < sums_) {
    const Buffer own = part_before(step_ + 2);
    must(MPI_Reduce_local(received_.data(), own.data, static_cast<int>(own.count), mpi_type(all_.type), MPI_SUM),
         what_);
  }
  if (++step_ < last_) begin_step();
}

// All rings are tested in one call: each test is a turn of MPI's own progress, with its system calls.
void MpiRing::advance_all() {
  if (under_way.empty()) return;
  const Waiting waiting(Waiting::Kind::returns);
  static thread_local std::vector<MPI_Request> requests;
  static thread_local std::vector<int> indices;
  for (bool more = true; more && !under_way.empty();) {
    requests.clear();
    for (const MpiRing* ring : under_way)
      requests.insert(requests.end(), std::begin(ring->requests_), std::end(ring->requests_));
    indices.resize(requests.size());
    int arrived = 0;
    must(
        MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &arrived, indices.data(), MPI_STATUSES_IGNORE),
        under_way.front()->what_);
    more = false;
    for (std::size_t i = 0; i < requests.size(); ++i) under_way[i / 2]->requests_[i % 2] = requests[i];
    for (MpiRing* ring : under_way) {
      if (ring->requests_[0] != MPI_REQUEST_NULL || ring->requests_[1] != MPI_REQUEST_NULL) continue;
      ring->end_step();
      more = true;
    }
    std::erase_if(under_way, [](const MpiRing* ring) { return ring->done(); });
  }
}

bool MpiRing::poll() {
  advance_all();
  return done();
}

// Its messages may still arrive. Nobody may take them for the end of a step, so it is none of the rings under way.
void MpiRing::give_up() {
  step_ = last_;
  given_up.push_back(std::move(received_));
  std::erase(under_way, this);
}

void MpiRing::wait() {
  for (Backoff backoff; !poll(); backoff.pause())
    if (aborted_ && *aborted_) {
      give_up();
      throw PeerError(std::string("MPI: ") + what_ + " was aborted");
    }
}

}  // namespace espalier::torchrt
