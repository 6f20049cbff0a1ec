#include <cstring>
#include <string>

#include "planner/core/error.hpp"
#include "torchrt/safetensors/weights.hpp"

namespace espalier::torchrt {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

template <class Stored, class Convert>
void copy(const StoredTensor& from, const TensorSpec& spec, float* to, Convert&& convert) {
  const bool matrix = spec.global_shape.size() == 2;
  const std::int64_t all_rows = spec.global_shape[0], all_columns = matrix ? spec.global_shape[1] : 1;
  const std::int64_t row_step = spec.transposed ? 1 : all_columns, column_step = spec.transposed ? all_rows : 1;
  for (const Range& rows : spec.rows)
    for (std::int64_t row = rows.first; row < rows.end(); ++row)
      for (std::int64_t column = spec.columns.first; column < spec.columns.end(); ++column) {
        Stored value;
        std::memcpy(&value, from.bytes.data() + (row * row_step + column * column_step) * sizeof(Stored), sizeof value);
        *to++ = convert(value);
      }
}

void load_tensor(const Weights& weights, const TensorSpec& spec, float* to) {
  const auto [tensor, file] = weights.find(spec.hugging_face);
  const auto fail = [&](const std::string& problem) {
    throw Error("safetensors file " + file->path() + ": tensor " + spec.hugging_face + ": " + problem);
  };
  std::vector<std::int64_t> expected = spec.global_shape;
  if (spec.transposed) std::swap(expected.at(0), expected.at(1));
  if (tensor->shape != expected) fail("has shape " + text_of(tensor->shape) + ", the model needs " + text_of(expected));
  switch (tensor->type) {
    case ElementType::f32:
      return copy<float>(*tensor, spec, to, [](float value) { return value; });
    case ElementType::f16:
      return copy<std::uint16_t>(*tensor, spec, to, f16_to_float);
    case ElementType::bf16:
      return copy<std::uint16_t>(*tensor, spec, to, bf16_to_float);
    default:
      fail(std::string("is of type ") + name_of(tensor->type) + "; parameters are read from F32, F16 and BF16");
  }
}

}  // namespace

void load_unit(const Weights& weights, const UnitSpec& spec, std::span<float> parameters) {
  ESPALIER_INVARIANT(parameters.size() == spec.floats);
  for (const TensorSpec& tensor : spec.tensors) load_tensor(weights, tensor, parameters.data() + tensor.offset);
}

}  // namespace espalier::torchrt
