#include "tests/gpu/standin/streams.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "tests/gpu/standin/context.hpp"
#include "tests/gpu/standin/settings.hpp"

namespace standin {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int number, bool waits) : gpu(number), blocking(waits) {}
  struct Piece {
    Work work;
    std::vector<Place> after;
  };
  const int gpu;
  const bool blocking;
  std::deque<Piece> pieces;
  std::uint64_t enqueued = 0, completed = 0;
  bool ends = false, runs = false;
};

namespace {

// Never destroyed: threads of streams use it until the process ends.
struct Everything {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Stream*, StreamPtr> streams;
  std::map<int, StreamPtr> defaults;  // by GPU
  std::mt19937_64 chance{settings().seed * 1000 + static_cast<std::uint64_t>(settings().rank)};
};
Everything& all() {
  static Everything* const made = new Everything;
  return *made;
}

std::atomic<int> context_error = 0;

void serve(const StreamPtr& stream) {
  std::unique_lock lock(all().mutex);
  for (;;) {
    all().changed.wait(lock, [&] { return !stream->pieces.empty() || stream->ends; });
    if (stream->pieces.empty()) return;
    Stream::Piece piece = std::move(stream->pieces.front());
    stream->pieces.pop_front();
    for (const Place& place : piece.after)
      all().changed.wait(lock, [&] { return place.stream->completed >= place.count || context_error != 0; });
    const std::uint64_t delay = settings().delay_us > 0 ? all().chance() % settings().delay_us : 0;
    lock.unlock();
    if (delay > 0) ::usleep(static_cast<useconds_t>(delay));
    if (context_error == 0 && piece.work) break_context(piece.work());
    piece = {};
    lock.lock();
    ++stream->completed;
    all().changed.notify_all();
  }
}

StreamPtr default_stream(int gpu) {
  StreamPtr& stream = all().defaults[gpu];
  if (!stream) stream = std::make_shared<Stream>(gpu, true);
  return stream;
}

// Under the lock.
Place put(const StreamPtr& stream, Work work, std::vector<Place> after) {
  const StreamPtr legacy = default_stream(stream->gpu);
  if (stream == legacy) {
    for (const auto& [raw, other] : all().streams)
      if (other->gpu == stream->gpu && other->blocking) after.push_back({other, other->enqueued});
  } else if (stream->blocking) {
    after.push_back({legacy, legacy->enqueued});
  }
  stream->pieces.push_back({std::move(work), std::move(after)});
  if (!stream->runs) {
    stream->runs = true;
    sigset_t every, before;
    sigfillset(&every);
    ::pthread_sigmask(SIG_SETMASK, &every, &before);  // signals are the program's threads'
    std::thread([stream] { serve(stream); }).detach();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  all().changed.notify_all();
  return {stream, ++stream->enqueued};
}

}  // namespace

StreamPtr make_stream(int gpu, bool blocking) {
  const auto stream = std::make_shared<Stream>(gpu, blocking);
  const std::lock_guard lock(all().mutex);
  all().streams[stream.get()] = stream;
  return stream;
}

void forget_stream(const StreamPtr& stream) {
  const std::lock_guard lock(all().mutex);
  all().streams.erase(stream.get());
  stream->ends = true;
  all().changed.notify_all();
}

StreamPtr stream_of(cudaStream_t handle) {
  const int gpu = current_gpu();
  const std::lock_guard lock(all().mutex);
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream(gpu);
  const auto found = all().streams.find(reinterpret_cast<Stream*>(handle));
  return found == all().streams.end() ? nullptr : found->second;
}

cudaStream_t handle_of(const StreamPtr& stream) { return reinterpret_cast<cudaStream_t>(stream.get()); }

int gpu_of(const Stream& stream) { return stream.gpu; }

Place enqueue(const StreamPtr& stream, Work work) {
  const std::lock_guard lock(all().mutex);
  return put(stream, std::move(work), {});
}

void await(const StreamPtr& stream, const Place& place) {
  const std::lock_guard lock(all().mutex);
  put(stream, nullptr, {place});
}

Place end_of(const StreamPtr& stream) {
  const std::lock_guard lock(all().mutex);
  // What the legacy default stream's next work would wait for.
  bool waits = false;
  if (stream == default_stream(stream->gpu))
    for (const auto& [raw, other] : all().streams)
      waits = waits || (other->blocking && other->completed < other->enqueued);
  return waits ? put(stream, nullptr, {}) : Place{stream, stream->enqueued};
}

bool done(const Place& place) {
  const std::lock_guard lock(all().mutex);
  return place.stream->completed >= place.count || context_error != 0;
}

void wait_for(const Place& place) {
  std::unique_lock lock(all().mutex);
  all().changed.wait(lock, [&] { return place.stream->completed >= place.count || context_error != 0; });
}

void wait_for_gpu(int gpu) {
  std::vector<Place> ends;
  {
    const std::lock_guard lock(all().mutex);
    ends.push_back({default_stream(gpu), default_stream(gpu)->enqueued});
    for (const auto& [raw, stream] : all().streams)
      if (stream->gpu == gpu) ends.push_back({stream, stream->enqueued});
  }
  for (const Place& end : ends) wait_for(end);
}

void wake_all() {
  const std::lock_guard lock(all().mutex);
  all().changed.notify_all();
}

int broken() { return context_error; }

bool breaks(int error) {
  switch (error) {
    case 214:
    case 220:
    case 226:
    case 700:
    case 702:
    case 709:
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case 719:
    case 721:
    case 999:
      return true;
    default:
      return false;
  }
}

void break_context(int error) {
  int none = 0;
  if (!breaks(error) || !context_error.compare_exchange_strong(none, error)) return;
  wake_all();
}

}  // namespace standin
