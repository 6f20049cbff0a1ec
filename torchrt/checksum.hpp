// XXH3 checksums. They detect accidental damage, not intended changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace espalier::torchrt {

std::uint64_t checksum(const void* data, std::size_t bytes);

// The same checksum, for bytes that are added part by part.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier::torchrt
