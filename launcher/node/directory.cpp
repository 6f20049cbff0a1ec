#include "launcher/node/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher {
namespace fs = std::filesystem;
namespace {

// Locks a file of `directory`. Returns an empty descriptor if a lock of the other kind is held (with LOCK_NB), if the
// directory was removed meanwhile, or if the file system has no locks.
wire::Descriptor lock_file(const fs::path& directory, const char* name, int kind, int flags) {
  const fs::path path = directory / name;
  wire::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  struct stat held {};
  struct stat there {};
  if (!file || ::flock(file.get(), kind) != 0 || ::fstat(file.get(), &held) != 0 ||
      ::lstat(path.c_str(), &there) != 0 || held.st_ino != there.st_ino || held.st_dev != there.st_dev)
    file.reset();
  return file;
}

// LOCK_SH: this process uses the directory on this node. LOCK_EX: the directory is being removed.
wire::Descriptor lock(const fs::path& directory, int kind, int flags) {
  return lock_file(directory, "lock", kind, flags);
}

constexpr int kTries = 10;  // to lock a directory that others may remove before

constexpr const char* kClaim = "launcher";  // the file that a launcher locks for its life, as no child of it does

// The caller holds the exclusive lock. The directory is renamed first, so that a process that comes now makes a new one
// under the old name.
void remove_locked(const fs::path& directory) {
  fs::path gone = directory;
  gone += ".gone-" + wire::fresh_nonce().substr(0, 8);
  std::error_code error, ignored;
  fs::rename(directory, gone, error);
  fs::remove_all(error ? directory : gone, ignored);
}

bool is_own_directory(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid() &&
         (status.st_mode & 077) == 0;
}

void make_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0 && !is_own_directory(directory))
    throw Error(directory.string() +
                ": cannot be made, or belongs to somebody else; is the disk full? or set launch.work_dir");
}

std::string prefix() { return "espalier-" + std::to_string(::getuid()) + "-"; }

// A directory without a lock file is being made, and stays.
void remove_abandoned(const fs::path& base) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (entry.path().filename().string().rfind(prefix(), 0) != 0 || !is_own_directory(entry.path())) continue;
    if (const auto held = lock(entry.path(), LOCK_EX | LOCK_NB, 0)) remove_locked(entry.path());
  }
}

}  // namespace

fs::path work_directory(const wire::Config& config) {
  if (!config.work_dir.empty()) return config.work_dir;
  const char* temporary = std::getenv("TMPDIR");
  return temporary != nullptr && *temporary == '/' ? temporary : "/tmp";
}

void remove_if_abandoned(const fs::path& directory) {
  if (directory.filename().string().rfind(prefix(), 0) != 0 || !is_own_directory(directory)) return;
  if (const auto held = lock(directory, LOCK_EX | LOCK_NB, O_CREAT)) remove_locked(directory);
}

void remove_of_job(const fs::path& base, JobId job) {
  const std::string start = prefix() + std::to_string(job) + "-";
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(base, ignored))
    if (entry.path().filename().string().rfind(start, 0) == 0) found.push_back(entry.path());
  for (const fs::path& directory : found) remove_if_abandoned(directory);
}

wire::Descriptor use_generation_directory(const fs::path& directory) {
  wire::Descriptor held;
  for (int tries = 0; !held && tries < kTries; ++tries) {
    make_directory(directory.parent_path());
    held = lock(directory.parent_path(), LOCK_SH, O_CREAT);
  }
  make_directory(directory);
  return held;
}

void make_within_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error)
    throw Error(path.string() + ": cannot be made: " + error.message() + "; is the disk full? or set launch.work_dir");
}

// Another launcher that starts now may take a directory whose lock is not held yet for abandoned, and remove it.
Directory::Directory(const fs::path& base, JobId job, unsigned step) {
  remove_abandoned(base);
  const std::string start = prefix() + std::to_string(job) + "-" + std::to_string(step) + "-";
  for (int tries = 0; !lock_ && tries < kTries; ++tries) {
    path_ = base / (start + wire::fresh_nonce().substr(0, 8));
    if (::mkdir(path_.c_str(), 0700) != 0) throw Error(path_.string() + ": cannot be made; check launch.work_dir");
    lock_ = lock(path_, LOCK_SH | LOCK_NB, O_CREAT);
    std::error_code ignored;
    if (!lock_) fs::remove_all(path_, ignored);
  }
  if (!lock_)
    throw Error(path_.string() + ": cannot be locked; set launch.work_dir to a folder of a file system with locks");
}

void Directory::claim_job(int restarts) {
  const std::string claim = kClaim + ("-" + std::to_string(restarts));
  claim_ = lock_file(path_, claim.c_str(), LOCK_EX | LOCK_NB, O_CREAT);
  const std::string own = path_.filename().string();
  // espalier-<uid>-<job>-<step>-<random>
  const std::string of_job = own.substr(0, own.rfind('-', own.rfind('-') - 1) + 1);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == own || name.rfind(of_job, 0) != 0 || !is_own_directory(entry.path()) ||
        ::access((entry.path() / claim).c_str(), F_OK) != 0)
      continue;
    if (!lock_file(entry.path(), claim.c_str(), LOCK_EX | LOCK_NB, 0))
      throw Error("another elastic step of this job runs, and a job has one at a time; start this one after it");
  }
}

Directory::~Directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path Directory::generation(int number) const {
  fs::path made = path_ / ("g" + std::to_string(number));
  make_directory(made);
  return made;
}

void Directory::remove_generation(int number) const {
  std::error_code ignored;
  fs::remove_all(path_ / ("g" + std::to_string(number)), ignored);
}

}  // namespace espalier::launcher
