#include "torchrt/data.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Data::Data(const std::string& path, int sequence, std::uint64_t seed)
    : sequence_(static_cast<std::size_t>(sequence)), order_(1, seed) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error("data file " + path + ": " + std::strerror(errno) + "; set data.path");
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw Error("data file " + path + ": is not a regular file; set data.path");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ < sequence_ + 1) {
    ::close(fd);
    throw Error("data file " + path + ": has " + std::to_string(size_) + " bytes, one sample needs " +
                std::to_string(sequence_ + 1) + "; give a longer file or a shorter model.sequence");
  }
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (mapped == MAP_FAILED) throw Error("data file " + path + ": cannot be mapped: " + std::strerror(errno));
  bytes_ = static_cast<const unsigned char*>(mapped);
  order_ = DataOrder((size_ - 1) / sequence_, seed);
}

Data::~Data() { ::munmap(const_cast<unsigned char*>(bytes_), size_); }

Batch Data::samples(std::uint64_t first, int count) const {
  Batch batch;
  const std::size_t tokens = sequence_ * static_cast<std::size_t>(count);
  batch.tokens.reserve(tokens);
  batch.targets.reserve(tokens);
  for (std::uint64_t sample = first; sample < first + static_cast<std::uint64_t>(count); ++sample) {
    const unsigned char* start = bytes_ + order_.piece(sample) * sequence_;
    batch.tokens.insert(batch.tokens.end(), start, start + sequence_);
    batch.targets.insert(batch.targets.end(), start + 1, start + 1 + sequence_);
  }
  return batch;
}

}  // namespace espalier::torchrt
