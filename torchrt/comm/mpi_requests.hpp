// MPI calls that are checked and whose waits sleep. For comm/*.cpp only.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// Throws Error with MPI's own text unless `code` is MPI_SUCCESS.
void must(int code, const char* what);

// MPI operations under way, all for one purpose. The destructor waits for them, unless MPI is
// finalized or an exception is being thrown.
class MpiRequests : public Pending {
 public:
  // `what` is named in messages and not copied. `aborted` (may be null) is set by abort(): a wait
  // then ends with an Error.
  explicit MpiRequests(const char* what, std::shared_ptr<const bool> aborted = nullptr)
      : what_(what), aborted_(std::move(aborted)) {}
  ~MpiRequests() override;
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  // The place for the next MPI call's request; valid until the next add().
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  // Keeps the value until this object is destroyed.
  template <class Kept>
  const Kept& keep(Kept kept) {
    const auto held = std::make_shared<const Kept>(std::move(kept));
    kept_.push_back(held);
    return *held;
  }
  void wait() override;
  bool poll() override;

 private:
  const char* what_;
  int errors_ = std::uncaught_exceptions();  // exceptions in flight when this object was made
  std::shared_ptr<const bool> aborted_;
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<const void>> kept_;
};

MPI_Datatype mpi_type(DataType type);

// MPI counts in ints, so a longer message goes in pieces of `most` elements. Calls `each(part of
// buffer, int count)`.
template <class Function>
void in_pieces(const Buffer& buffer, std::size_t most, const Function& each) {
  for (std::size_t first = 0; first < buffer.count; first += most) {
    const Buffer part = buffer.part(first, std::min(most, buffer.count - first));
    each(part, static_cast<int>(part.count));
  }
}

}  // namespace espalier::torchrt
