#include "torchrt/recovery/marks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

Marks::Marks(int count, std::int64_t settings)
    : count_(count), fd_(::memfd_create("espalier-marks", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(bytes())) != 0 ||
      ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw Error("marks: no memory: " + std::string(std::strerror(errno)));
  void* const mapped = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (mapped == MAP_FAILED) throw Error("marks: cannot be mapped: " + std::string(std::strerror(errno)));
  data_ = static_cast<char*>(mapped);
  lasting_.settings = settings;
  std::memcpy(data_, &lasting_, sizeof lasting_);
  for (int mark = 0; mark < count; ++mark) set(mark, -1);
}

Marks::~Marks() { ::munmap(data_, bytes()); }

void Marks::set(int mark, std::int64_t step) {
  ESPALIER_INVARIANT(mark >= 0 && mark < count_);
  auto* const place = reinterpret_cast<std::int64_t*>(data_ + wire::marks_bytes(mark));
  // Earlier writes are visible before the mark. Later writes do not overtake a mark of -1.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::atomic_ref(*place).store(step, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Marks::reads(std::int64_t data, std::int64_t validation) {
  lasting_.data = data;
  lasting_.validation = validation;
  std::memcpy(data_ + offsetof(wire::VaultMarks, data), &lasting_.data, sizeof data);
  std::memcpy(data_ + offsetof(wire::VaultMarks, validation), &lasting_.validation, sizeof validation);
}

void Marks::agreed(std::int64_t step, double loss, double gradient_norm, double learning_rate) {
  wire::VaultMarks head = lasting_;
  head.trained = 1;
  std::memcpy(data_, &head, sizeof head);  // marked as of no step while it changes
  std::atomic_thread_fence(std::memory_order_seq_cst);
  head.loss = loss;
  head.gradient_norm = gradient_norm;
  head.learning_rate = learning_rate;
  std::memcpy(data_ + sizeof head.step, &head.loss, sizeof head - sizeof head.step);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::memcpy(data_, &step, sizeof step);
}

wire::VaultMarks read_marks(const UniqueFd& fd) {
  wire::VaultMarks head;
  if (::pread(fd.get(), &head, sizeof head, 0) != static_cast<ssize_t>(sizeof head))
    throw Error("marks: cannot be read: " + std::string(std::strerror(errno)));
  return head;
}

}  // namespace espalier::torchrt
