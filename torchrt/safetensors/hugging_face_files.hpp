// A model's weights as Hugging Face keeps them: model.safetensors, or several files with an index.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "torchrt/model/units.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

// Hugging Face's own default is 5 GB a file.
constexpr std::uint64_t kMostFileBytes = 5'000'000'000;

// Writes all units' parameters under Hugging Face's names, in its orientation, as `type` (F32 or BF16), a tied table
// once. `parameters` gives a unit's values, spec.floats each, and is asked once per unit in order. The folder exists.
// Throws Error naming file and reason; also when the folder holds weights already.
void write_hugging_face_files(const std::string& folder, const std::vector<UnitSpec>& units, ElementType type,
                              const std::function<std::vector<float>(const UnitSpec&)>& parameters,
                              std::uint64_t most_file_bytes = kMostFileBytes);

}  // namespace espalier::torchrt
