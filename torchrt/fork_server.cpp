#include "torchrt/fork_server.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>

namespace espalier::torchrt {
namespace {

// What a request brings: the new process's socket, standard output and standard error.
struct Request {
  int socket = -1, output = -1, errors = -1;
  bool whole() const { return socket >= 0 && output >= 0 && errors >= 0; }
  void close() const {
    for (const int one : {socket, output, errors})
      if (one >= 0) ::close(one);
  }
};

// The numbers that name the entries of a folder, and the number of the descriptor that it was read by.
struct Numbers {
  std::set<int> all;
  int reader = -1;
};

Numbers numbers_in(const char* path) {
  Numbers found;
  DIR* const folder = ::opendir(path);
  if (folder == nullptr) return found;
  found.reader = ::dirfd(folder);
  while (const dirent* const entry = ::readdir(folder))
    if (entry->d_name[0] != '.') found.all.insert(std::atoi(entry->d_name));
  ::closedir(folder);
  return found;
}

bool has_one_thread() { return numbers_in("/proc/self/task").all.size() == 1; }

// Copies of this process would share an open file's position, and a device's file works in one process.
bool has_files(int socket) {
  const Numbers open = numbers_in("/proc/self/fd");
  const std::set<int> known{0, 1, 2, socket, open.reader};
  return open.all.empty() ||
         std::any_of(open.all.begin(), open.all.end(), [&](int one) { return !known.contains(one); });
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// A library that is prepared for fork(), such as OpenBLAS, ends its threads before one (pthread_atfork). Threads that
// are still there after a fork belong to one that is not.
bool may_fork(int socket) {
  if (has_files(socket)) return false;
  if (has_one_thread()) return true;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  if (child < 0) return false;
  // A handler of pthread_atfork() may hang in the child.
  for (int look = 0; look < 200; ++look) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) return has_one_thread();
    ::usleep(10'000);
  }
  ::kill(child, SIGKILL);
  wait_for(child);
  return false;
}

// False: nobody will ask any more.
bool receive(int socket, Request& request) {
  char byte = 0;
  iovec place{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &place;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t count = 0;
  do count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(3 * sizeof(int))) {
    int numbers[3];
    std::memcpy(numbers, CMSG_DATA(header), sizeof numbers);
    request = {numbers[0], numbers[1], numbers[2]};
  }
  return true;
}

// A process between this one and the new one ends at once, so that the new one becomes the child of `parent`. True in
// the new process, once it is. When there is no memory nothing is made, and the request's socket tells that by its end.
bool make(const Request& request, pid_t parent) {
  int gate[2];  // closed when the new process has its parent
  if (::pipe2(gate, O_CLOEXEC) != 0) return false;
  std::fflush(nullptr);
  const pid_t between = ::fork();
  if (between == 0) {
    const pid_t made = ::fork();
    if (made != 0) ::_exit(made < 0 ? 1 : 0);
    ::close(gate[1]);
    char byte = 0;
    while (::read(gate[0], &byte, 1) < 0 && errno == EINTR) {
    }
    ::close(gate[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the parent died before prctl
    ::setpgid(0, 0);
    ::dup2(request.output, 1);
    ::dup2(request.errors, 2);
    ::close(request.output);
    ::close(request.errors);
    return true;
  }
  ::close(gate[0]);
  if (between > 0) wait_for(between);
  ::close(gate[1]);
  return false;
}

}  // namespace

int serve_forks(int socket) {
  const pid_t parent = ::getppid();
  if (parent <= 0 || !may_fork(socket)) return socket;  // 0: the parent is in another PID namespace
  [[maybe_unused]] const ssize_t told = ::send(socket, "f", 1, MSG_NOSIGNAL);
  for (Request request; receive(socket, request); request = {}) {
    if (request.whole() && make(request, parent)) {
      ::close(socket);
      return request.socket;
    }
    request.close();
  }
  ::_exit(0);
}

}  // namespace espalier::torchrt
