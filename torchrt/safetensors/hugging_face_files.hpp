// Writes a model's weights in Hugging Face's format: model.safetensors, or several files with an
// index.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "torchrt/model/units.hpp"
#include "torchrt/safetensors/element_type.hpp"

namespace espalier::torchrt {

// Hugging Face's own default is 5 GB per file.
constexpr std::uint64_t kMostFileBytes = 5'000'000'000;

// Writes all units' parameters under Hugging Face's names and in its orientation, as `type` (F32 or
// BF16). A tied table is written once. `parameters` gives one unit's values (spec.floats); it is
// called once per unit, in order. The folder must exist. Throws Error that names file and reason,
// also when the folder already holds weights.
void write_hugging_face_files(const std::string& folder, const std::vector<UnitSpec>& units, ElementType type,
                              const std::function<std::vector<float>(const UnitSpec&)>& parameters,
                              std::uint64_t most_file_bytes = kMostFileBytes);

}  // namespace espalier::torchrt
