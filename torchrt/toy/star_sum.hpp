// Sums of a few numbers over the processes of a generation, by way of process 0. For a program without MPI whose sums
// are small.
#pragma once

#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"

namespace espalier::torchrt::toy {

class StarSum {
 public:
  // Process 0 listens at `address`, which is its own, and the others connect to it; nobody proves who it is. Returns
  // when all are there. Throws Error after a minute, or when the address cannot be used. One thread.
  StarSum(int rank, int size, const std::string& address, const std::string& port);
  // In place, the same on all processes. false: another process is gone, or says nothing for a minute.
  bool operator()(double* values, int count);

 private:
  void listen_for(int size, const std::string& address, const std::string& port);
  void connect_to(int rank, const std::string& address, const std::string& port);
  int rank_;
  std::vector<wire::Descriptor> peers_;  // of process 0: the others, by rank from 1 on; of the others: process 0
};

}  // namespace espalier::torchrt::toy
