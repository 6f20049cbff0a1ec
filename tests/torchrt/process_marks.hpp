// The marks of a worker (VaultMarks), read from outside while it trains.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "planner/wire/descriptor.hpp"
#include "planner/wire/vault_message.hpp"

namespace espalier::test {

// Reads the steps at which a living worker's units stand.
class ProcessMarks {
 public:
  ProcessMarks(pid_t process, int units) : units_(units) {
    std::error_code closed;  // a worker's threads may close files meanwhile
    for (const auto& link : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd"))
      if (std::filesystem::read_symlink(link, closed).string().find("memfd:espalier-marks") != std::string::npos)
        marks_.reset(::open(link.path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  // A unit of another rank is never marked.
  std::set<std::int64_t> look() {
    std::set<std::int64_t> steps;
    std::int64_t mark = 0;
    for (int unit = 0; unit < units_; ++unit) {
      if (::pread(marks_.get(), &mark, sizeof mark, static_cast<off_t>(wire::marks_bytes(unit))) != 8) return {};
      if (mark >= 0) own_.insert(unit);
      if (own_.count(unit) != 0) steps.insert(mark);
    }
    return steps;
  }

 private:
  int units_;
  wire::Descriptor marks_;
  std::set<int> own_;
};

}  // namespace espalier::test
