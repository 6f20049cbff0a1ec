// Streams and events: one thread for each stream, which does its work in order and beside the host. Default streams
// wait for streams that are not "non-blocking", and those for them, as CUDA's legacy default stream does.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace standin {

// Work returns a CUDA error. One that breaks the context ends all further work.
using Work = std::function<int()>;

class Stream;
using StreamPtr = std::shared_ptr<Stream>;

// Place on a stream: the end of its first `count` pieces of work.
struct Place {
  StreamPtr stream;
  std::uint64_t count = 0;
};

StreamPtr make_stream(int gpu, bool blocking);
void forget_stream(const StreamPtr& stream);
// Null: no stream. The default stream of the thread's GPU for handles 0 and cudaStreamLegacy.
StreamPtr stream_of(cudaStream_t handle);
cudaStream_t handle_of(const StreamPtr& stream);
int gpu_of(const Stream& stream);
Place enqueue(const StreamPtr& stream, Work work);
// The stream's later work waits for `place`.
void await(const StreamPtr& stream, const Place& place);
Place end_of(const StreamPtr& stream);
bool done(const Place& place);
void wait_for(const Place& place);  // on the host
void wait_for_gpu(int gpu);         // all streams
void wake_all();                    // when the context breaks

// The error that has broken this process's context; 0: none. Errors that do not break it are ignored by
// break_context().
int broken();
void break_context(int error);
bool breaks(int error);

}  // namespace standin
