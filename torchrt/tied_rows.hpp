// Carries out the exchange of the tied table's gradient (schedule/tied.hpp), and keeps the memory for it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "torchrt/engine.hpp"

namespace espalier::torchrt {

// For one thread.
class TiedRows {
 public:
  // `engine` must outlive it. `ops`: this rank's whole list, for which it allocates memory.
  TiedRows(const Engine& engine, const std::vector<Op>& ops);

  // The other copy's rows for one unit.
  struct Rows {
    Buffer buffer;
    std::unique_ptr<Pending> arrival;  // null: the rows are this rank's own
  };
  // Operations of the kinds send_tied and receive_tied. Neither waits.
  void send(const Op& op);
  void receive(const Op& op);
  // For an operation of the kind add_tied: waits for its rows and hands them out. Their memory is used again by the
  // next receive().
  Rows take(const Op& op);

 private:
  void reserve(const std::vector<Op>& ops);
  Buffer memory_for(std::size_t held, const Op& op);

  const Engine& engine_;
  std::map<std::pair<int, int>, Rows> held_;         // by unit and first row
  std::vector<std::unique_ptr<Allocation>> memory_;  // kept from step to step
};

}  // namespace espalier::torchrt
