#include "torchrt/safetensors/hugging_face_files.hpp"

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/core/error.hpp"
#include "torchrt/safetensors/writer.hpp"
#include "torchrt/write_file.hpp"

namespace espalier::torchrt {

namespace {

namespace fs = std::filesystem;

// `transformers` requires it.
const std::map<std::string, std::string> kFormat = {{"format", "pt"}};

bool stored(const UnitSpec& unit, const TensorSpec& tensor) { return !tensor.tied || unit.unit == 0; }

TensorToStore describe(const TensorSpec& tensor, ElementType type) {
  TensorToStore result{tensor.hugging_face, type, tensor.global_shape};
  if (tensor.transposed) std::swap(result.shape.at(0), result.shape.at(1));
  return result;
}

// Divides the tensors, in order, among files.
std::vector<std::vector<TensorToStore>> divide(const std::vector<UnitSpec>& units, ElementType type,
                                               std::uint64_t most) {
  std::vector<std::vector<TensorToStore>> files(1);
  std::uint64_t bytes = 0;
  for (const UnitSpec& unit : units)
    for (const TensorSpec& spec : unit.tensors) {
      if (!stored(unit, spec)) continue;
      TensorToStore tensor = describe(spec, type);
      if (bytes > 0 && bytes + tensor.bytes() > most) {
        files.emplace_back();
        bytes = 0;
      }
      bytes += tensor.bytes();
      files.back().push_back(std::move(tensor));
    }
  return files;
}

std::string file_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

template <class Stored, class Convert>
void append(SafetensorsWriter& writer, const TensorSpec& tensor, const float* values, Convert&& convert) {
  const auto rows = static_cast<std::size_t>(tensor.global_shape[0]);
  const std::size_t columns = tensor.elements() / rows;
  std::vector<Stored> out(tensor.elements());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      out[tensor.transposed ? column * rows + row : row * columns + column] = convert(values[row * columns + column]);
  writer.append(std::as_bytes(std::span(out)));
}

void write_index(const std::string& path, const std::vector<std::vector<TensorToStore>>& files) {
  nlohmann::json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::json::object()}};
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const TensorToStore& tensor : files[i]) {
      total += tensor.bytes();
      index["weight_map"][tensor.name] = file_name(i, files.size());
    }
  index["metadata"]["total_size"] = total;
  write_whole_file(path, index.dump(2) + "\n");
}

}  // namespace

void write_hugging_face_files(const std::string& folder, const std::vector<UnitSpec>& units, ElementType type,
                              const std::function<std::vector<float>(const UnitSpec&)>& parameters,
                              std::uint64_t most_file_bytes) {
  ESPALIER_INVARIANT(type == ElementType::f32 || type == ElementType::bf16);
  const std::string index = folder + "/model.safetensors.index.json";
  for (const std::string& path : {index, folder + "/model.safetensors"})
    if (fs::exists(path)) throw Error(path + ": is there already; choose another folder");
  const std::vector<std::vector<TensorToStore>> files = divide(units, type, most_file_bytes);
  std::optional<SafetensorsWriter> writer;
  std::size_t file = 0, in_file = 0;
  for (const UnitSpec& unit : units) {
    const std::vector<float> values = parameters(unit);
    for (const TensorSpec& tensor : unit.tensors) {
      if (!stored(unit, tensor)) continue;
      if (in_file == 0) writer.emplace(folder + "/" + file_name(file, files.size()), files[file], kFormat);
      const float* start = values.data() + tensor.offset;
      if (type == ElementType::f32) append<float>(*writer, tensor, start, [](float value) { return value; });
      else append<std::uint16_t>(*writer, tensor, start, float_to_bf16);
      if (++in_file < files[file].size()) continue;
      writer->finish();
      ++file;
      in_file = 0;
    }
  }
  if (files.size() > 1) write_index(index, files);
}

}  // namespace espalier::torchrt
