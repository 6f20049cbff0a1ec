#include "launcher/world/load_reports.hpp"

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::launcher {

bool LoadReports::took(int rank, const std::string& node, const wire::Loaded& loaded) {
  if (taken_ && (taken_->step != loaded.step || taken_->from != loaded.from))
    throw Error("worker: took the state of step " + std::to_string(loaded.step) + ", another that of step " +
                std::to_string(taken_->step));
  taken_ = loaded;
  reports_[rank] = {node, loaded};
  return static_cast<int>(reports_.size()) == ranks_;
}

std::map<std::string, double> LoadReports::phases_ms() const {
  std::map<std::string, double> longest;
  for (const auto& [rank, report] : reports_)
    for (const auto& [phase, ms] : report.loaded.phases_ms) longest[phase] = std::max(longest[phase], ms);
  return longest;
}

LoadReports::MovedBytes LoadReports::moved_bytes() const {
  MovedBytes moved;
  std::map<std::string, std::int64_t> to_node;
  for (const auto& [rank, report] : reports_) {
    moved.adopted += report.loaded.bytes_adopted;
    moved.copied += report.loaded.bytes_copied;
    moved.sent += report.loaded.bytes_sent;
    moved.sent_early += report.loaded.bytes_sent_early;
    moved.most_to_a_node = std::max(moved.most_to_a_node, to_node[report.node] += report.loaded.bytes_sent);
  }
  return moved;
}

}  // namespace espalier::launcher
