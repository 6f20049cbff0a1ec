#include "torchrt/safetensors/writer.hpp"

#include <cstring>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "torchrt/write_file.hpp"

namespace espalier::torchrt {

std::uint64_t TensorToStore::bytes() const {
  std::uint64_t count = size_of(type);
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, const std::vector<TensorToStore>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(create_file(path)) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const TensorToStore& tensor : tensors) {
    header[tensor.name] = {{"dtype", name_of(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {missing_, missing_ + tensor.bytes()}}};
    missing_ += tensor.bytes();
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // spaces: the format aligns the data this way
  std::uint64_t length = text.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(text)));
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  ESPALIER_INVARIANT(bytes.size() <= missing_);
  missing_ -= bytes.size();
  write(bytes);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) { write_all(file_.get(), bytes, path_); }

void SafetensorsWriter::finish() {
  ESPALIER_INVARIANT(missing_ == 0);
  finish_file(std::move(file_), path_);
}

}  // namespace espalier::torchrt
