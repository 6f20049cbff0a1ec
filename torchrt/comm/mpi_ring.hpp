// A sum over a ring of ranks, in steps that go on whenever MPI is polled. For comm/*.cpp only.
//
// Why not MPI_Iallreduce: Open MPI (4.1, 5.0) sums in place along a tree, whatever the size, so every byte crosses the
// slowest link twice, one way after the other. A ring sends each byte once each way, both ways at once, which is also
// what the planner's model takes for granted (Suika, "Modeling DP").
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

// Collective: every rank of the communicator begins the same rings in the same order. Rank r first receives what the
// sum of part r lacks (reduce-scatter), then every part goes round (all-gather). For one thread.
class MpiRing : public Pending {
 public:
  struct Steps {
    bool sum = true, gather = true;
  };
  // `parts`: of `all`, one of each rank, in ranks' order; some may be empty. Each fits into an int. `tag`: of this ring
  // alone among those under way. `what` is named in messages and not copied. `aborted`: as in MpiRequests. If `sum` is
  // left out, `all` may have any type.
  MpiRing(MPI_Comm comm, int tag, Buffer all, std::vector<Range> parts, Steps steps, const char* what,
          std::shared_ptr<const bool> aborted);
  ~MpiRing() override;
  MpiRing(const MpiRing&) = delete;
  MpiRing& operator=(const MpiRing&) = delete;

  void wait() override;
  // Lets all rings make progress, also where this one is done.
  bool poll() override;
  bool done() const { return step_ >= last_; }

  // Lets all rings of this process make progress. Free where none is under way.
  static void advance_all();

 private:
  void begin_step();
  void end_step();
  void give_up();
  Buffer part_before(int steps) const;  // of the rank so many places before this one

  MPI_Comm comm_;
  int tag_;
  Buffer all_;
  std::vector<Range> parts_;
  const char* what_;
  std::shared_ptr<const bool> aborted_;
  int errors_;  // exceptions in flight when this object was made
  int rank_ = 0, ranks_ = 1;
  int step_, sums_, last_;      // steps before `sums_` add what they receive
  std::vector<char> received_;  // one part, of a step that adds
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace espalier::torchrt
