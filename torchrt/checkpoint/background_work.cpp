#include "torchrt/checkpoint/background_work.hpp"

#include <thread>
#include <utility>

namespace espalier::torchrt {

void BackgroundWork::start(std::string what, double now, Task task) {
  const auto progress = std::make_shared<WriteProgress>();
  std::packaged_task<void()> work([task = std::move(task), progress] { task(*progress); });
  std::future<void> result = work.get_future();
  std::thread(std::move(work)).detach();
  what_ = std::move(what);
  progress_ = progress;
  seen_ = 0;
  moved_ = now;
  result_ = std::move(result);
}

bool BackgroundWork::ended(std::chrono::milliseconds most) const {
  return result_.wait_for(most) == std::future_status::ready;
}

double BackgroundWork::stands_still(double now) {
  if (const std::int64_t pieces = progress_->pieces(); pieces != seen_) {
    seen_ = pieces;
    moved_ = now;
  }
  return now - moved_;
}

}  // namespace espalier::torchrt
