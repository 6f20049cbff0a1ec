#include "launcher/directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace fs = std::filesystem;
namespace {

wire::Descriptor lock(const fs::path& directory, int flags) {
  wire::Descriptor file(::open((directory / "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.reset();
  return file;
}

void remove_abandoned(const fs::path& base) {
  const std::string prefix = "espalier-" + std::to_string(::getuid()) + "-";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    if (entry.path().filename().string().rfind(prefix, 0) != 0) continue;
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid())
      continue;
    if (lock(entry.path(), 0)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

Directory::Directory(const std::string& base, JobId job, unsigned step)
    : path_(fs::path(base) /
            ("espalier-" + std::to_string(::getuid()) + "-" + std::to_string(job) + "-" + std::to_string(step))) {
  remove_abandoned(base);
  std::error_code error;
  if (::mkdir(path_.c_str(), 0700) != 0)
    throw Error(path_.string() + ": cannot be made; another launcher of this step runs, or work_dir is not writable");
  lock_ = lock(path_, O_CREAT);
  if (!lock_) throw Error(path_.string() + ": cannot be locked");
}

Directory::~Directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path Directory::generation(int number) const {
  const fs::path made = path_ / ("g" + std::to_string(number));
  std::error_code error;
  fs::create_directory(made, error);
  if (error) throw Error(made.string() + ": cannot be made: " + error.message());
  return made;
}

void Directory::remove_generation(int number) const {
  std::error_code ignored;
  fs::remove_all(path_ / ("g" + std::to_string(number)), ignored);
}

}  // namespace espalier::launcher
