#include "torchrt/checkpoint/background_work.hpp"

#include <thread>
#include <utility>

namespace espalier::torchrt {

void BackgroundWork::start(std::string what, double now, Task task) {
  what_ = std::move(what);
  progress_ = std::make_shared<WriteProgress>();
  seen_ = 0;
  moved_ = now;
  std::packaged_task<void()> work([task = std::move(task), progress = progress_] { task(*progress); });
  result_ = work.get_future();
  std::thread(std::move(work)).detach();
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
