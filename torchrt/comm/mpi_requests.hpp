// MPI calls that are checked and whose waits sleep. For comm/*.cpp only.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// Throws Error with MPI's own words unless `code` is MPI_SUCCESS.
void must(int code, const char* what);

// Outstanding operations of MPI, all of one purpose. Destroying them waits, unless MPI is over or an error is on its
// way.
class MpiRequests : public Pending {
 public:
  // `what` is for messages and not copied. `aborted` (may be null): set by abort(), ends a wait with an Error.
  explicit MpiRequests(const char* what, std::shared_ptr<const bool> aborted = nullptr)
      : what_(what), aborted_(std::move(aborted)) {}
  ~MpiRequests() override;
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;

  // Where the next call of MPI puts its request; valid until the next one.
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  // Lives until the operations are done.
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
  int errors_ = std::uncaught_exceptions();  // on their way when it was made
  std::shared_ptr<const bool> aborted_;
  std::vector<MPI_Request> requests_;
  std::vector<std::shared_ptr<const void>> kept_;
};

MPI_Datatype mpi_type(DataType type);

// MPI counts in ints: longer messages go in pieces of `most` elements. Calls `each(part of buffer, int count)`.
template <class Function>
void in_pieces(const Buffer& buffer, std::size_t most, const Function& each) {
  for (std::size_t first = 0; first < buffer.count; first += most) {
    const Buffer part = buffer.part(first, std::min(most, buffer.count - first));
    each(part, static_cast<int>(part.count));
  }
}

}  // namespace espalier::torchrt
