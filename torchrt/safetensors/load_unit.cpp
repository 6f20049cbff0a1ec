#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/core/error.hpp"
#include "torchrt/safetensors/weights.hpp"

namespace espalier::torchrt {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

// Bytes of whole lines of the stored matrix that are read at once.
constexpr std::uint64_t kReadAtOnce = 4 << 20;

// A line is a row of the stored matrix: a row of the tensor, or where it is stored transposed, a column. Of each line
// only the span that the shard needs is read, and several lines at once where that is all of them.
template <class Stored, class Convert>
void copy(const SafetensorsFile& file, const StoredTensor& from, const TensorSpec& spec, float* to, Convert&& convert) {
  const std::int64_t all_rows = spec.global_shape[0];
  const std::int64_t all_columns = spec.global_shape.size() == 2 ? spec.global_shape[1] : 1;
  const std::int64_t length = spec.transposed ? all_rows : all_columns;  // of a line
  // Of each line the elements from `low` to before `high` are needed.
  const auto each_block = [&](Range lines, std::int64_t low, std::int64_t high, const auto& visit) {
    const std::int64_t width = high - low;
    const std::int64_t most =
        width == length ? std::max<std::int64_t>(1, kReadAtOnce / sizeof(Stored) / std::max<std::int64_t>(1, width))
                        : 1;
    std::vector<Stored> block;
    for (std::int64_t line = lines.first; line < lines.end(); line += most) {
      const std::int64_t count = std::min(most, lines.end() - line);
      block.resize(static_cast<std::size_t>(count * width));
      file.read(from, static_cast<std::uint64_t>(line * length + low) * sizeof(Stored),
                std::as_writable_bytes(std::span(block)));
      for (std::int64_t i = 0; i < count; ++i) visit(line + i, block.data() + i * width);
    }
  };
  const std::int64_t columns = spec.columns.count;
  if (!spec.transposed) {
    for (const Range& rows : spec.rows)
      each_block(rows, spec.columns.first, spec.columns.end(), [&](std::int64_t, const Stored* line) {
        for (std::int64_t column = 0; column < columns; ++column) *to++ = convert(line[column]);
      });
    return;
  }
  if (spec.rows.empty()) return;
  std::int64_t low = INT64_MAX, high = 0;
  for (const Range& rows : spec.rows) {
    low = std::min(low, rows.first);
    high = std::max(high, rows.end());
  }
  each_block(spec.columns, low, high, [&](std::int64_t column, const Stored* line) {
    float* next = to + (column - spec.columns.first);
    for (const Range& rows : spec.rows)
      for (std::int64_t row = rows.first; row < rows.end(); ++row, next += columns) *next = convert(line[row - low]);
  });
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
      return copy<float>(*file, *tensor, spec, to, [](float value) { return value; });
    case ElementType::f16:
      return copy<std::uint16_t>(*file, *tensor, spec, to, f16_to_float);
    case ElementType::bf16:
      return copy<std::uint16_t>(*file, *tensor, spec, to, bf16_to_float);
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
