// The step of each of a rank's memories, where other processes can read it after the rank's death.
#pragma once

#include <cstdint>

#include "planner/wire/vault_message.hpp"
#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// The marks have a memory of their own, which any process may map. One thread writes.
class Marks {
 public:
  // All marks are -1. `settings`: the field of VaultMarks. Throws Error.
  Marks(int count, std::int64_t settings);
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  // The memory holds the state after `step`. Set -1 before the memory changes.
  void set(int mark, std::int64_t step);
  // Notes the fields `data` and `validation` of VaultMarks. Call it before training.
  void reads(std::int64_t data, std::int64_t validation);
  // Notes the agreement of all ranks. Call it before the step changes anything.
  void agreed(std::int64_t step, double loss, double gradient_norm, double learning_rate);

  int count() const { return count_; }
  int fd() const { return fd_.get(); }
  std::size_t bytes() const { return wire::marks_bytes(count_); }

 private:
  int count_;
  wire::VaultMarks lasting_;  // with the fields that do not change from step to step
  UniqueFd fd_;
  char* data_ = nullptr;
};

// The head of another process's marks. Throws Error.
wire::VaultMarks read_marks(const UniqueFd& fd);

}  // namespace espalier::torchrt
