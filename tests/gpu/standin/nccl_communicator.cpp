#include "tests/gpu/standin/nccl_communicator.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <thread>
#include <utility>

#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/settings.hpp"

namespace standin {

namespace {

std::mutex naming;

void pause_by_seed() {
  if (settings().delay_us == 0) return;
  thread_local std::mt19937_64 chance(settings().seed * 77 + static_cast<std::uint64_t>(::gettid()));
  ::usleep(static_cast<useconds_t>(chance() % settings().delay_us));
}

// In the communicator's thread, one after the other.
void do_later(const CommunicatorPtr& shared, std::function<void()> job) {
  const std::lock_guard lock(shared->mutex);
  shared->jobs.push_back(std::move(job));
  if (std::exchange(shared->works, true)) return;
  sigset_t every, before;
  sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  std::thread([shared] {
    choose(shared->ordinal);
    for (;;) {
      std::function<void()> next;
      {
        const std::lock_guard guard(shared->mutex);
        if (shared->jobs.empty()) {
          shared->works = false;
          return;
        }
        next = std::move(shared->jobs.front());
        shared->jobs.pop_front();
      }
      pause_by_seed();
      next();
    }
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

ncclResult_t refuse(ncclResult_t code, const std::string& why) {
  const std::lock_guard lock(naming);
  last_words() = why;
  std::fprintf(stderr, "stand-in: rank %d: NCCL: %s\n", settings().rank, why.c_str());
  return code;
}
std::string last_refusal() {
  const std::lock_guard lock(naming);
  return last_words();
}

void wait_while_in_progress(const CommunicatorPtr& shared) {
  while (shared->state == ncclInProgress && !shared->aborted) ::usleep(200);
}

ncclResult_t begin(const CommunicatorPtr& shared, std::function<ncclResult_t()> work) {
  shared->state = ncclInProgress;
  do_later(shared, [shared, work = std::move(work)] {
    const ncclResult_t found = work();
    int expected = ncclInProgress;
    shared->state.compare_exchange_strong(expected, found);
  });
  if (!shared->blocking) return ncclInProgress;
  wait_while_in_progress(shared);
  return static_cast<ncclResult_t>(shared->state.load());
}

ncclResult_t open(Communicator& shared) {
  if (count_call("nccl_memory") != 0 || !charge(shared.gpu, settings().communicator)) {
    // NCCL warns of CUDA's error first. What asked for the memory then warns, too, and that is what remains.
    refuse(ncclUnhandledCudaError, "Failed to CUDA calloc async 4096 bytes");
    return ncclUnhandledCudaError;
  }
  shared.data = std::make_unique<Mesh>(shared.name + "d", shared.rank, shared.size, shared.aborted);
  shared.control = std::make_unique<Mesh>(shared.name + "c", shared.rank, shared.size, shared.aborted);
  const ncclResult_t first = shared.data->connect();
  return first != ncclSuccess ? first : shared.control->connect();
}

}  // namespace standin
