// The job's scratch directory on this node, removed with its owner.
#pragma once

#include <filesystem>
#include <string>

#include "planner/core/job.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// Holds <base>/espalier-<uid>-<job>-<step> (mode 0700) and a lock that tells it is in use.
class Directory {
 public:
  // Also removes directories that earlier launchers of this user left behind when they were killed. Throws Error.
  Directory(const std::string& base, JobId job, unsigned step);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path generation(int number) const;  // made on first use
  void remove_generation(int number) const;

 private:
  std::filesystem::path path_;
  wire::Descriptor lock_;
};

}  // namespace espalier::launcher
