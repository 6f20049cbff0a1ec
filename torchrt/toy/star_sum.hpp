// Sums of a few numbers over the processes of a generation, by way of process 0. For a program without MPI whose sums
// are small.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "planner/wire/descriptor.hpp"

namespace espalier::torchrt::toy {

class StarSum {
 public:
  // Process 0 listens at `address`, which is its own, and the others connect to it. Both sides prove that they know
  // `secret`, which all processes of this generation have and nobody else. What they then send is not protected.
  // Returns when all are there. Throws Error after `limit`, or when the address cannot be used. One thread.
  StarSum(int rank, int size, const std::string& address, const std::string& port, std::string secret,
          std::chrono::milliseconds limit = std::chrono::minutes(1));
  // In place, the same on all processes. false: another process is gone, or the sum is not there after `limit`.
  bool operator()(double* values, int count);

 private:
  using Time = std::chrono::steady_clock::time_point;
  void listen_for(int size, const std::string& address, const std::string& port);
  void connect_to(const std::string& address, const std::string& port);
  bool admit(wire::Descriptor peer);                      // of process 0: whether it is one that is awaited
  bool enter(const wire::Descriptor& first, Time until);  // of the others

  int rank_;
  std::string secret_;
  std::chrono::milliseconds limit_;
  std::vector<wire::Descriptor> peers_;  // of process 0: the others, by rank from 1 on; of the others: process 0
};

}  // namespace espalier::torchrt::toy
