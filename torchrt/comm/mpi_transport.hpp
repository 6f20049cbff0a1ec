// Point to point over MPI, on host memory. For comm/*.cpp and tests.
#pragma once

#include <list>

#include "torchrt/comm/mpi_requests.hpp"

namespace espalier::torchrt {

class MpiTransport : public Transport {
 public:
  // `most`: the most elements in one MPI message. Needs an initialized MPI.
  explicit MpiTransport(std::size_t most = std::size_t{1} << 30);
  void connect(const Peers& peers) override;
  void post(Buffer buffer, const Address& to, std::shared_ptr<const void> keep) override;
  std::unique_ptr<Pending> start_receive(Buffer buffer, const Address& from) override;
  void drain() override;
  void poll() override;
  void abort() override { *aborted_ = true; }

 private:
  struct Post {
    std::unique_ptr<MpiRequests> requests;
    std::shared_ptr<const void> keep;
  };
  // Throws Error when the tag is above this MPI's highest.
  int mpi_tag(const Address& address) const;

  std::size_t most_;
  int highest_tag_;
  std::list<Post> posts_;
  std::shared_ptr<bool> aborted_ = std::make_shared<bool>(false);
};

}  // namespace espalier::torchrt
