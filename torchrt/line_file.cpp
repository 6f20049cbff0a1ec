#include "torchrt/line_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

LineFile::LineFile(std::string key, std::string path, Absent absent, Tell tell)
    : key_(std::move(key)), path_(std::move(path)), tell_(std::move(tell)) {
  if (!tell_) tell_ = [](const std::string& what) { std::fprintf(stderr, "espalier: train: %s\n", what.c_str()); };
  if (!open() && absent == Absent::is_error)
    throw Error(key_ + ": " + path_ + " cannot be written: " + std::strerror(errno) + "; choose another path");
}

LineFile::~LineFile() {
  if (lost_ > 0) tell_(key_ + ": " + path_ + ": " + lost());
}

std::string LineFile::lost() const {
  return std::to_string(lost_) + (lost_ == 1 ? " line was lost" : " lines were lost");
}

bool LineFile::open() {
  file_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  return static_cast<bool>(file_);
}

bool LineFile::empty() const {
  struct stat now {};
  return file_ && ::fstat(file_.get(), &now) == 0 && now.st_size == 0;
}

void LineFile::append(const std::string& lines) {
  const int problem = write(lines);
  if (problem == 0) {
    if (lost_ > 0) tell_(key_ + ": " + path_ + " can be written again; " + lost());
    lost_ = 0;
    return;
  }
  if (lost_ == 0)
    tell_(key_ + ": " + path_ + " cannot be written: " + std::strerror(problem) +
          "; training goes on, and lines are lost until it can be written: make room there, or mend its file system");
  lost_ += std::count(lines.begin(), lines.end(), '\n');
}

// 0, or errno.
int LineFile::write(const std::string& lines) {
  if (!file_ && !open()) return errno;
  const std::string text = torn_ ? "\n" + lines : lines;
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(file_.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int problem = count < 0 ? errno : EIO;
      if (written > 0) cut(written);
      if (problem == ESTALE) file_.reset();  // the file server no longer knows the file under this descriptor
      return problem;
    }
    written += static_cast<std::size_t>(count);
  }
  torn_ = false;
  return 0;
}

// The last `bytes` that were written. If another process has appended to the file meanwhile, they stay.
void LineFile::cut(std::size_t bytes) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_CUR);
  struct stat now {};
  const bool last = end >= static_cast<off_t>(bytes) && ::fstat(file_.get(), &now) == 0 && now.st_size == end;
  if (!last || ::ftruncate(file_.get(), end - static_cast<off_t>(bytes)) != 0) torn_ = true;
}

}  // namespace espalier::torchrt
