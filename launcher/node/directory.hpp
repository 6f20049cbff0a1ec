// The job's scratch directory on a node.
#pragma once

#include <filesystem>
#include <string>

#include "planner/core/job.hpp"
#include "planner/wire/config.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {

// The folder in which job directories are made: launch.work_dir, else $TMPDIR if it is an absolute path, else /tmp.
std::filesystem::path work_directory(const wire::Config& config);

// Removes a job's directory on this node, unless a process on this node uses it, e.g. the launcher or a rank server.
// Keepers call this when they leave.
void remove_if_abandoned(const std::filesystem::path& directory);

// Removes from `base` the directories that killed launchers of this user's job left. For the end of the job.
void remove_of_job(const std::filesystem::path& base, JobId job);

// Makes a generation's directory, and the job's directory above it, on a node without the launcher. No process removes
// them while the returned descriptor, or an inherited copy of it, is open. The descriptor is empty if the file system
// has no locks. Throws Error when another user made the directories.
wire::Descriptor use_generation_directory(const std::filesystem::path& directory);

// Makes a directory within a generation's, if it is not there. Throws Error, e.g. when the disk is full.
void make_within_directory(const std::filesystem::path& path);

// Owns the directory <base>/espalier-<uid>-<job>-<step>-<random> (mode 0700), and a lock that shows that it is in use.
// The destructor removes the directory.
class Directory {
 public:
  // Also removes directories that this user's earlier launchers left when they were killed. Throws Error.
  Directory(const std::filesystem::path& base, JobId job, unsigned step);
  ~Directory();
  // A job has one launcher at a time: throws Error when the launcher of another step of this job is alive on this node.
  // A rank server that a dead launcher left does not count. A launcher of an earlier run does not either: `restarts` is
  // how often Slurm has requeued the job.
  void claim_job(int restarts = 0);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path generation(int number) const;  // made on first use; throws Error
  void remove_generation(int number) const;

 private:
  std::filesystem::path path_;
  wire::Descriptor lock_, claim_;
};

}  // namespace espalier::launcher
