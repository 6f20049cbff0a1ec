#include "torchrt/data_fingerprint.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "torchrt/checksum.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::uint64_t kBlocks = 64, kBlockBytes = 4096;

constexpr std::array<std::pair<TokenFormat, const char*>, 3> kFormats = {
    {{TokenFormat::bytes, "bytes"}, {TokenFormat::uint16, "uint16"}, {TokenFormat::uint32, "uint32"}}};

const char* name_of(TokenFormat format) {
  for (const auto& [one, name] : kFormats)
    if (one == format) return name;
  return "";
}

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

nlohmann::json json_of(const DataFile& file) {
  return {{"path", file.path},
          {"bytes", file.is.bytes},
          {"format", name_of(file.is.format)},
          {"checksum", hexadecimal(file.is.checksum)}};
}

}  // namespace

DataFingerprint fingerprint(const InputFile& file, TokenFormat format) {
  const std::uint64_t size = file.size();
  Checksum sum;
  std::array<std::byte, kBlockBytes> block;
  const auto add = [&](std::uint64_t first) {
    const std::span<std::byte> part = std::span(block).first(std::min(kBlockBytes, size - first));
    file.read(first, part);
    sum.add(part.data(), part.size());
  };
  if (size <= kBlocks * kBlockBytes) {
    for (std::uint64_t first = 0; first < size; first += kBlockBytes) add(first);
  } else {
    const std::uint64_t last = size - kBlockBytes, steps = kBlocks - 1;
    for (std::uint64_t i = 0; i <= steps; ++i) add(last / steps * i + last % steps * i / steps);
  }
  return {size, format, sum.value()};
}

std::string describe(const DataFile& file) {
  return file.path + " (" + std::to_string(file.is.bytes) + " bytes, format " + name_of(file.is.format) +
         ", checksum " + hexadecimal(file.is.checksum) + ")";
}

nlohmann::json to_facts(const DataFiles& files) {
  nlohmann::json facts = {{"data", json_of(files.training)}};
  if (files.validation) facts["validation"] = json_of(*files.validation);
  return facts;
}

std::optional<DataFile> data_file_from(const nlohmann::json& facts, const char* key) {
  try {
    const nlohmann::json& json = facts.at(key);
    DataFile file;
    file.path = json.at("path").get<std::string>();
    file.is.bytes = json.at("bytes").get<std::uint64_t>();
    file.is.checksum = std::stoull(json.at("checksum").get<std::string>(), nullptr, 16);
    for (const auto& [format, name] : kFormats)
      if (json.at("format") == name) {
        file.is.format = format;
        return file;
      }
  } catch (const std::exception&) {
    // Written before it was recorded, or by a version that records something else.
  }
  return std::nullopt;
}

std::int64_t short_fingerprint(const DataFingerprint& fingerprint) {
  const std::array<std::uint64_t, 3> parts = {fingerprint.bytes, static_cast<std::uint64_t>(fingerprint.format),
                                              fingerprint.checksum};
  const auto hash = static_cast<std::int64_t>(checksum(parts.data(), sizeof parts));
  return hash == 0 ? 1 : hash;
}

}  // namespace espalier::torchrt
