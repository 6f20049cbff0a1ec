// The job's scratch directory on this node, removed with its owner.
#pragma once

#include <filesystem>
#include <string>

#include "planner/core/job.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// Where the job's directory is made: launch.work_dir, else $TMPDIR, else /tmp.
std::filesystem::path work_directory(const wire::Config& config);

// Removes a job's directory on this node, unless somebody still uses it here: the launcher, or a generation's daemon.
// For keepers, when they leave.
void remove_if_abandoned(const std::filesystem::path& directory);

// Removes what a killed launcher of this user's job left in `base`. For the end of the job.
void remove_of_job(const std::filesystem::path& base, JobId job);

// Makes a generation's directory and the job's above it on another node. Nobody removes them while the descriptor, or
// one inherited from it, is open; empty where the file system has no locks. Throws Error when somebody else made them.
wire::Descriptor use_generation_directory(const std::filesystem::path& directory);

// Holds <base>/espalier-<uid>-<job>-<step>-<random> (mode 0700) and a lock that tells it is in use.
class Directory {
 public:
  // Also removes directories that earlier launchers of this user left behind when they were killed. Throws Error.
  Directory(const std::filesystem::path& base, JobId job, unsigned step);
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
