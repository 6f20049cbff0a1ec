// By what a data file is recognised without reading all of it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "torchrt/config.hpp"
#include "torchrt/input_file.hpp"

namespace espalier::torchrt {

struct DataFingerprint {
  std::uint64_t bytes = 0;
  TokenFormat format = TokenFormat::bytes;
  std::uint64_t checksum = 0;  // of samples of the content
  bool operator==(const DataFingerprint&) const = default;
};

// Reads at most 64 blocks of 4 KiB: the first, the last, and others evenly between them. So a file
// of up to 256 KiB is read whole. In a larger one a change that misses all blocks and keeps the size
// is not noticed. Throws Error when the file cannot be read.
DataFingerprint fingerprint(const InputFile& file, TokenFormat format);

struct DataFile {
  std::string path;
  DataFingerprint is;
};
// What one rank trains and validates on.
struct DataFiles {
  DataFile training;
  std::optional<DataFile> validation;
};

// For messages: "text (1000 bytes, format bytes, checksum 0123456789abcdef)".
std::string describe(const DataFile& file);

// As checkpoints and messages between ranks hold it: "data" and, where there is one, "validation".
nlohmann::json to_facts(const DataFiles& files);
// Reads `key` of to_facts(). Nothing where the key is missing or is not understood.
std::optional<DataFile> data_file_from(const nlohmann::json& facts, const char* key);

// A hash of a fingerprint, without the path. Never 0.
std::int64_t short_fingerprint(const DataFingerprint& fingerprint);

}  // namespace espalier::torchrt
