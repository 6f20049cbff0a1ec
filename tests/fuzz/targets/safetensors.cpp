// A safetensors file. The tensors' bytes are not read when a file is opened, but their places must lie in it.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/safetensors/file.hpp"
#include "torchrt/safetensors/weights.hpp"

namespace espalier::fuzz {
namespace {

// A folder in memory, which goes when the program ends.
class Folder {
 public:
  Folder() { require(::mkdtemp(path_) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/dev/shm/espalier-fuzz-XXXXXX";
};

// The index of a model in several files.
void as_index(std::string_view input) {
  static const Folder folder;
  const std::string path = folder / "model.safetensors.index.json";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << input;
  try {
    const torchrt::Weights weights(path);
  } catch (const Error&) {
  }
}

}  // namespace

void safetensors(std::string_view input) {
  const MemoryFile file(input);
  try {
    const torchrt::SafetensorsFile read(file.path());
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : read.tensors()) {
      bytes += tensor.bytes;
      require(read.find(name) == &tensor);
      require(tensor.first + tensor.bytes <= input.size());
      std::vector<std::byte> stored(tensor.bytes);
      read.read(tensor, 0, stored);
    }
    require(bytes <= input.size());
  } catch (const Error&) {
  }
  as_index(input);
}

}  // namespace espalier::fuzz
