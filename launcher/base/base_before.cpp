#include "launcher/base/base_before.hpp"

#include <utility>

namespace espalier::launcher {
namespace {
constexpr int kStepsBeside = 5;  // least steps on the new base before the one before it is given back
}

void BaseBefore::hold(JobId base, wire::Loop::Milliseconds longest) {
  id_ = base;
  steps_ = 0;
  limit_ = loop_.after(longest, [this] { give_back(); });
}

void BaseBefore::stepped(bool settled) {
  if (id_ != 0 && ++steps_ >= kStepsBeside && settled) give_back();
}

void BaseBefore::ended(JobId id) {
  if (id == id_) id_ = 0;
}

void BaseBefore::give_back() {
  if (id_ != 0) give_back_(std::exchange(id_, 0));
}

}  // namespace espalier::launcher
