// A file that is in memory only, for parsers that read files.
#pragma once

#include <string>
#include <string_view>

#include "planner/wire/descriptor.hpp"

namespace espalier::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content);  // aborts where the kernel has no memory for it
  std::string path() const;                       // as long as the object lives, and in this process only

 private:
  wire::Descriptor fd_;
};

}  // namespace espalier::fuzz
