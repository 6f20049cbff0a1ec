#include "torchrt/comm/world.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "planner/core/error.hpp"
#include "torchrt/comm/mpi_requests.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

constexpr int kConnectTag = 32000;
constexpr int kConnectDistance = 64;

}  // namespace

World::World(int* argc, char*** argv) {
  let_mpi_yield();
  const Waiting waiting(Waiting::Kind::sleeps);
  int provided = 0;
  must(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "start");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm node = MPI_COMM_NULL;
  must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "split by node");
  MPI_Comm_rank(node, &local_rank_);
  MPI_Comm_free(&node);
}

World::~World() = default;

void World::sum(std::span<double> values) {
  MpiRequests requests("agreement");
  must(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                      requests.add()),
       "agreement");
  requests.wait();
}

int World::minimum(int value) {
  MpiRequests requests("agreement");
  must(MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD, requests.add()), "agreement");
  requests.wait();
  return value;
}

void World::broadcast(std::span<char> bytes) {
  MpiRequests requests("broadcast");
  must(MPI_Ibcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD, requests.add()),
       "broadcast");
  requests.wait();
}

std::vector<std::vector<char>> World::gather(std::span<const char> bytes, std::int64_t most) {
  const auto own = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_), 0);
  {
    MpiRequests requests("gathering");
    must(MPI_Iallgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, MPI_COMM_WORLD, requests.add()),
         "gathering");
    requests.wait();
  }
  const std::int64_t whole = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  const std::int64_t share = whole <= most ? longest : std::max<std::int64_t>(1, most / size_);  // of a rank in a round
  std::vector<std::vector<char>> parts(sizes.size());
  for (std::int64_t done = 0; done < longest; done += share) {
    const auto now = [&](std::int64_t size) {
      return static_cast<int>(std::clamp<std::int64_t>(size - done, 0, share));
    };
    std::vector<int> counts, starts;
    int together = 0;
    for (const std::int64_t size : sizes) {
      counts.push_back(now(size));
      starts.push_back(together);
      together += counts.back();
    }
    std::vector<char> all(static_cast<std::size_t>(together));
    MpiRequests requests("gathering");
    must(MPI_Iallgatherv(bytes.data() + std::min(done, own), now(own), MPI_BYTE, all.data(), counts.data(),
                         starts.data(), MPI_BYTE, MPI_COMM_WORLD, requests.add()),
         "gathering");
    requests.wait();
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      parts[rank].insert(parts[rank].end(), all.begin() + starts[rank], all.begin() + starts[rank] + counts[rank]);
  }
  return parts;
}

void World::barrier() {
  MpiRequests requests("barrier");
  must(MPI_Ibarrier(MPI_COMM_WORLD, requests.add()), "barrier");
  requests.wait();
}

void World::connect() {
  char out = 1, in = 0;
  for (int distance = 1; distance <= std::min(size_ - 1, 2 * kConnectDistance); ++distance) {
    // First come the nearest ranks on one side, then the nearest on the other side.
    const int by = distance <= kConnectDistance ? distance : size_ - (distance - kConnectDistance);
    const int to = (rank_ + by) % size_, from = (rank_ + size_ - by) % size_;
    MpiRequests requests("connect");
    must(MPI_Irecv(&in, 1, MPI_BYTE, from, kConnectTag, MPI_COMM_WORLD, requests.add()), "connect");
    must(MPI_Isend(&out, 1, MPI_BYTE, to, kConnectTag, MPI_COMM_WORLD, requests.add()), "connect");
    requests.wait();
  }
}

void World::finalize() {
  const Waiting waiting(Waiting::Kind::sleeps);
  MPI_Finalize();
}

void World::abort() {
  MPI_Abort(MPI_COMM_WORLD, 1);
  ::_exit(1);
}

}  // namespace espalier::torchrt
