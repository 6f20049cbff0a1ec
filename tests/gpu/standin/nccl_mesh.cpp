#include "tests/gpu/standin/nccl_mesh.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/settings.hpp"

namespace standin {

namespace {

constexpr int kLook = 50;  // ms between two looks at whether it was aborted

struct Greeting {
  std::int32_t rank, gpu;
  char host[120];
};
struct Header {
  std::uint64_t bytes;
};

// As NCCL tells machines apart.
std::string host_id() {
  if (const char* const given = std::getenv("NCCL_HOSTID"); given != nullptr && *given != '\0') return given;
  char name[64] = {};
  ::gethostname(name, sizeof name - 1);
  return std::string(name) + "/" + std::to_string(current_gpu() / settings().node);
}

sockaddr_un address_of(const std::string& name, int rank, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "standin-nccl-" + name + "-" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return address;
}

// One direction of one pair.
struct Line {
  int fd = -1;
  bool sends = false;
  std::deque<Transfer> waiting;
  enum { header, ready, data } at = header;
  std::size_t done = 0;
  Header head{};
};

// Goes on as far as it can without waiting. Negative: the peer is gone; -2: the two do not fit.
int go_on(Line& line) {
  while (!line.waiting.empty()) {
    const Transfer& now = line.waiting.front();
    char* memory = nullptr;
    std::size_t bytes = 0;
    bool writes = false;
    char token = 'r';
    switch (line.at) {
      case Line::header:
        line.head.bytes = line.sends ? now.bytes : line.head.bytes;
        memory = reinterpret_cast<char*>(&line.head), bytes = sizeof line.head, writes = line.sends;
        break;
      case Line::ready:
        memory = &token, bytes = 1, writes = !line.sends;
        break;
      case Line::data:
        memory = now.data, bytes = now.bytes, writes = line.sends;
        break;
    }
    const ssize_t moved = writes ? ::send(line.fd, memory + line.done, bytes - line.done, MSG_NOSIGNAL)
                                 : ::recv(line.fd, memory + line.done, bytes - line.done, 0);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return writes ? POLLOUT : POLLIN;
    if (moved <= 0) return -1;
    line.done += static_cast<std::size_t>(moved);
    if (line.done < bytes) continue;
    line.done = 0;
    if (line.at == Line::header) {
      if (!line.sends && line.head.bytes != now.bytes) {
        std::fprintf(stderr, "stand-in: rank %d: a send of %llu bytes meets a receive of %zu\n", settings().rank,
                     static_cast<unsigned long long>(line.head.bytes), now.bytes);
        return -2;
      }
      line.at = Line::ready;
    } else if (line.at == Line::ready) {
      line.at = Line::data;
    } else {
      line.at = Line::header;
      line.waiting.pop_front();
    }
  }
  return 0;
}

}  // namespace

std::string& last_words() {
  static auto* const words = new std::string;
  return *words;
}

Mesh::Mesh(std::string name, int rank, int size, const std::atomic<bool>& aborted)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      aborted_(aborted),
      out_(static_cast<std::size_t>(size), -1),
      in_(static_cast<std::size_t>(size), -1) {}

Mesh::~Mesh() {
  for (const auto* const fds : {&out_, &in_})
    for (const int fd : *fds)
      if (fd >= 0) ::close(fd);
  if (listener_ >= 0) ::close(listener_);
}

ncclResult_t Mesh::connect() {
  socklen_t length = 0;
  const sockaddr_un own = address_of(name_, rank_, length);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (::bind(listener_, reinterpret_cast<const sockaddr*>(&own), length) != 0 || ::listen(listener_, size_) != 0)
    return ncclSystemError;
  Greeting greeting{rank_, current_gpu(), {}};
  std::strncpy(greeting.host, host_id().c_str(), sizeof greeting.host - 1);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const sockaddr_un theirs = address_of(name_, peer, length);
    int fd = -1;
    for (;;) {
      if (aborted_) return ncclInProgress;
      fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&theirs), length) == 0) break;
      ::close(fd);
      ::usleep(5000);
    }
    out_[static_cast<std::size_t>(peer)] = fd;
    if (::send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) return ncclRemoteError;
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  ncclResult_t found = ncclSuccess;
  for (int missing = size_ - 1; missing > 0;) {
    pollfd wait{listener_, POLLIN, 0};
    if (aborted_) return ncclInProgress;
    if (::poll(&wait, 1, kLook) <= 0) continue;
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    int peer = -1;
    const ncclResult_t one = greet(fd, peer);
    if (peer < 0) return ncclRemoteError;
    in_[static_cast<std::size_t>(peer)] = fd;
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
    if (one != ncclSuccess) found = one;
    --missing;
  }
  return found;
}

ncclResult_t Mesh::greet(int connection, int& peer) const {
  Greeting theirs{};
  if (::recv(connection, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) return ncclRemoteError;
  peer = theirs.rank;
  if (host_id() != theirs.host) return ncclSuccess;  // they use the network
  if (theirs.gpu == current_gpu()) {
    last_words() = "Duplicate GPU detected: ranks " + std::to_string(rank_) + " and " + std::to_string(peer) +
                   " both on CUDA device " + std::to_string(theirs.gpu);
    return ncclInvalidUsage;
  }
  if (settings().peers != 1 && !settings().sees(theirs.gpu)) {
    last_words() = "Cuda failure 101 'invalid device ordinal' while importing memory of rank " + std::to_string(peer);
    return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

ncclResult_t Mesh::run(const std::vector<Transfer>& transfers) {
  std::vector<Line> lines(static_cast<std::size_t>(2 * size_));
  std::deque<Transfer> to_self, from_self;
  for (const Transfer& one : transfers) {
    if (one.bytes == 0) continue;
    if (one.peer == rank_) {
      (one.sends ? to_self : from_self).push_back(one);
      continue;
    }
    const auto peer = static_cast<std::size_t>(one.peer);
    Line& line = lines[2 * peer + (one.sends ? 1 : 0)];
    line.fd = one.sends ? out_[peer] : in_[peer];
    line.sends = one.sends;
    line.waiting.push_back(one);
  }
  for (; !to_self.empty() && !from_self.empty(); to_self.pop_front(), from_self.pop_front())
    std::memmove(from_self.front().data, to_self.front().data, to_self.front().bytes);
  for (;;) {
    std::vector<pollfd> waits;
    for (Line& line : lines) {
      if (line.waiting.empty()) continue;
      const int wanted = go_on(line);
      if (wanted == -1) return ncclRemoteError;
      if (wanted == -2) return ncclInternalError;
      if (wanted != 0) waits.push_back({line.fd, static_cast<short>(wanted), 0});
    }
    if (waits.empty()) return ncclSuccess;
    if (aborted_) return ncclInProgress;
    ::poll(waits.data(), waits.size(), kLook);
  }
}

ncclResult_t Mesh::gather(const std::string& mine, std::vector<std::string>& all) {
  all.assign(static_cast<std::size_t>(size_), mine);
  std::string out = mine;
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    transfers.push_back({true, peer, out.data(), out.size()});
    transfers.push_back({false, peer, all[static_cast<std::size_t>(peer)].data(), mine.size()});
  }
  return run(transfers);
}

}  // namespace standin
