#include "launcher/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"

namespace espalier::launcher {
namespace fs = std::filesystem;
namespace {

wire::Descriptor lock(const fs::path& directory, int flags) {
  wire::Descriptor file(::open((directory / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.reset();
  return file;
}

bool is_own_directory(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid() &&
         (status.st_mode & 077) == 0;
}

std::string prefix() { return "espalier-" + std::to_string(::getuid()) + "-"; }

// Directories without a lock belong to launchers on other nodes.
void remove_abandoned(const fs::path& base) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (entry.path().filename().string().rfind(prefix(), 0) != 0 || !is_own_directory(entry.path())) continue;
    if (const auto held = lock(entry.path(), 0)) fs::remove_all(entry.path(), ignored);
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
  std::error_code ignored;
  const auto held = lock(directory, 0);
  if (held || !fs::exists(directory / "lock", ignored)) fs::remove_all(directory, ignored);
}

void remove_of_job(const fs::path& base, JobId job) {
  const std::string start = prefix() + std::to_string(job) + "-";
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(base, ignored))
    if (entry.path().filename().string().rfind(start, 0) == 0) found.push_back(entry.path());
  for (const fs::path& directory : found) remove_if_abandoned(directory);
}

void make_generation_directory(const fs::path& directory) {
  const fs::path parent = directory.parent_path();
  if (::mkdir(parent.c_str(), 0700) != 0 && !is_own_directory(parent))
    throw Error(parent.string() + ": cannot be made, or belongs to somebody else; set launch.work_dir");
  if (::mkdir(directory.c_str(), 0700) != 0 && !is_own_directory(directory))
    throw Error(directory.string() + ": cannot be made; is the disk full?");
}

Directory::Directory(const fs::path& base, JobId job, unsigned step)
    : path_(base /
            (prefix() + std::to_string(job) + "-" + std::to_string(step) + "-" + wire::fresh_nonce().substr(0, 8))) {
  remove_abandoned(base);
  if (::mkdir(path_.c_str(), 0700) != 0) throw Error(path_.string() + ": cannot be made; check launch.work_dir");
  lock_ = lock(path_, O_CREAT);
  if (!lock_) throw Error(path_.string() + ": cannot be locked");
}

Directory::~Directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path Directory::generation(int number) const {
  fs::path made = path_ / ("g" + std::to_string(number));
  make_generation_directory(made);
  return made;
}

void Directory::write_owners(int generation, const std::string& text) const {
  const fs::path path = path_ / ("g" + std::to_string(generation)) / "owners";
  std::ofstream file(path);
  if (!(file << text).flush()) throw Error(path.string() + ": cannot be written; is the disk full?");
}

void Directory::remove_generation(int number) const {
  std::error_code ignored;
  fs::remove_all(path_ / ("g" + std::to_string(number)), ignored);
}

}  // namespace espalier::launcher
