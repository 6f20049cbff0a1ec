#include "torchrt/comm/mpi_requests.hpp"

#include <string>

#include "torchrt/comm/mpi_ring.hpp"
#include "torchrt/comm/peer_error.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw PeerError(std::string("MPI: ") + what + " failed: " + std::string(text, static_cast<std::size_t>(length)));
}

MpiRequests::~MpiRequests() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || std::uncaught_exceptions() > errors_) return;
  try {
    wait();
  } catch (const Error&) {  // a caller that needs the result has waited before
  }
}

bool MpiRequests::poll() {
  MpiRing::advance_all();  // also where these are done: whoever polls the newest operation means all of them
  if (requests_.empty()) return true;
  const Waiting waiting(Waiting::Kind::returns);
  int done = 0;
  must(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), what_);
  if (done != 0) requests_.clear();
  return done != 0;
}

void MpiRequests::wait() {
  for (Backoff backoff; !poll(); backoff.pause())
    if (aborted_ && *aborted_) {
      requests_.clear();
      throw PeerError(std::string("MPI: ") + what_ + " was aborted");
    }
}

MPI_Datatype mpi_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::bfloat16:
      return MPI_UINT16_T;  // MPI only moves bfloat16, never adds it
  }
  return MPI_DATATYPE_NULL;
}

}  // namespace espalier::torchrt
