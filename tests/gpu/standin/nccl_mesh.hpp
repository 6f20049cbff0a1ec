// Sockets between the ranks of a communicator: two for each pair, one for each direction of data.
#pragma once

#include <nccl.h>

#include <atomic>
#include <string>
#include <vector>

namespace standin {

struct Transfer {
  bool sends = false;
  int peer = 0;
  char* data = nullptr;
  std::size_t bytes = 0;
};

class Mesh {
 public:
  // `name` is the communicator's: all ranks give the same.
  Mesh(std::string name, int rank, int size, const std::atomic<bool>& aborted);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  // Waits for all ranks. Finds what NCCL finds: two ranks on one GPU, and GPUs that cannot be imported.
  ncclResult_t connect();
  // All of them at once, but for those to one peer, which keep their order. A send ends only when its receive is there.
  // Returns ncclRemoteError when a peer is gone, ncclInProgress when it was aborted.
  ncclResult_t run(const std::vector<Transfer>& transfers);
  // Every rank's bytes, by rank; all give equally many.
  ncclResult_t gather(const std::string& mine, std::vector<std::string>& all);

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  ncclResult_t greet(int connection, int& peer) const;

  const std::string name_;
  const int rank_, size_;
  const std::atomic<bool>& aborted_;
  int listener_ = -1;
  std::vector<int> out_, in_;  // by peer
};

// Of the last error in this process, for ncclGetLastError.
std::string& last_words();

}  // namespace standin
