#include "torchrt/comm/world.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/comm/waits.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kChunkBytes = 4u << 20;
constexpr int kConnectTag = 32000;

void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(std::string("MPI: ") + what + " failed: " + std::string(text, static_cast<std::size_t>(length)));
}

bool is_done(MPI_Request& request, const char* what) {
  const Waiting waiting(Waiting::Kind::returns);
  int done = 0;
  must(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
  return done != 0;
}

void wait_for(MPI_Request& request, const char* what) {
  for (Backoff backoff; !is_done(request, what);) backoff.pause();
}

}  // namespace

struct World::Post {
  std::vector<float> values;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Group::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  ~Handle() {
    const Waiting waiting(Waiting::Kind::sleeps);
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized && comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
};

Group::Group() = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

void Group::sum(std::span<float> values) {
  ESPALIER_INVARIANT(handle_ != nullptr);
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, handle_->comm,
                      &request),
       "sum over replicas");
  wait_for(request, "sum over replicas");
}

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

void World::reap() {
  posts_.remove_if([](Post& post) { return is_done(post.request, "send"); });
}

void World::post(std::span<const float> values, int peer, int tag) {
  reap();
  Post& post = posts_.emplace_back();
  post.values.assign(values.begin(), values.end());
  must(MPI_Isend(post.values.data(), static_cast<int>(post.values.size()), MPI_FLOAT, peer, tag, MPI_COMM_WORLD,
                 &post.request),
       "send");
}

void World::drain() {
  for (Post& post : posts_) wait_for(post.request, "send");
  posts_.clear();
}

void World::receive(std::span<float> values, int peer, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Irecv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, peer, tag, MPI_COMM_WORLD, &request),
       "receive");
  wait_for(request, "receive");
}

void World::send_bytes(const void* data, std::size_t bytes, int peer, int tag) {
  const char* next = static_cast<const char*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t chunk = std::min(left, kChunkBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    must(MPI_Isend(next, static_cast<int>(chunk), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request), "send of state");
    wait_for(request, "send of state");
    next += chunk;
    left -= chunk;
  }
}

void World::receive_bytes(void* data, std::size_t bytes, int peer, int tag) {
  char* next = static_cast<char*>(data);
  for (std::size_t left = bytes; left > 0;) {
    const std::size_t chunk = std::min(left, kChunkBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    must(MPI_Irecv(next, static_cast<int>(chunk), MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request), "receive of state");
    wait_for(request, "receive of state");
    next += chunk;
    left -= chunk;
  }
}

std::vector<double> World::gather_all(const std::vector<double>& values) {
  std::vector<double> all(values.size() * static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Iallgather(values.data(), static_cast<int>(values.size()), MPI_DOUBLE, all.data(),
                      static_cast<int>(values.size()), MPI_DOUBLE, MPI_COMM_WORLD, &request),
       "agreement");
  wait_for(request, "agreement");
  return all;
}

void World::barrier() {
  MPI_Request request = MPI_REQUEST_NULL;
  must(MPI_Ibarrier(MPI_COMM_WORLD, &request), "barrier");
  wait_for(request, "barrier");
}

Group World::split(int color) {
  const Waiting waiting(Waiting::Kind::sleeps);
  Group group;
  group.handle_ = std::make_unique<Group::Handle>();
  must(MPI_Comm_split(MPI_COMM_WORLD, color, rank_, &group.handle_->comm), "split");
  MPI_Comm_set_errhandler(group.handle_->comm, MPI_ERRORS_RETURN);
  return group;
}

void World::connect_all() {
  for (int distance = 1; distance < size_; ++distance) {
    char out = 1, in = 0;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const int to = (rank_ + distance) % size_, from = (rank_ + size_ - distance) % size_;
    must(MPI_Irecv(&in, 1, MPI_BYTE, from, kConnectTag, MPI_COMM_WORLD, &requests[0]), "connect");
    must(MPI_Isend(&out, 1, MPI_BYTE, to, kConnectTag, MPI_COMM_WORLD, &requests[1]), "connect");
    for (MPI_Request& request : requests) wait_for(request, "connect");
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
