// A model's weights on disk: one safetensors file, or several with an index, in Hugging Face's
// format.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "torchrt/model/units.hpp"
#include "torchrt/safetensors/file.hpp"

namespace espalier::torchrt {

// A tensor's bytes are read only when they are used; before that only headers are read. Const
// methods may be called from any thread.
class Weights {
 public:
  // `path`: a .safetensors file, an .index.json, or a folder with model.safetensors or model.safetensors.index.json.
  // Throws Error when a file cannot be read or is broken, or the index and the files disagree.
  explicit Weights(const std::string& path);

  struct Found {
    const StoredTensor* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
  };
  // Finds a tensor by its whole name, or without the name's first part ("transformer.", "model."),
  // which files of a bare model leave out. Throws Error when there is none.
  Found find(const std::string& name) const;

 private:
  void add(const std::string& path);
  void read_index(const std::string& path);

  std::string path_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Found> tensors_;
};

// Loads the shard that `spec` describes into `parameters`: spec.floats elements, which the caller
// sets to zero. The stored type may be F32, F16 or BF16. Throws Error that names the tensor (and
// the file) when it is missing or of another shape or type.
void load_unit(const Weights& weights, const UnitSpec& spec, std::span<float> parameters);

}  // namespace espalier::torchrt
