#include "torchrt/data.hpp"

#include <algorithm>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

std::uint64_t token_bytes(TokenFormat format) {
  switch (format) {
    case TokenFormat::bytes:
      return 1;
    case TokenFormat::uint16:
      return 2;
    case TokenFormat::uint32:
      return 4;
  }
  return 1;
}

std::uint64_t count_pieces(const MappedFile& file, const std::string& path, TokenFormat format,
                           std::uint64_t sequence) {
  const std::uint64_t size = file.bytes().size(), width = token_bytes(format);
  if (size % width != 0)
    throw Error("data file " + path + ": has " + std::to_string(size) + " bytes, no whole number of tokens of " +
                std::to_string(width) + " bytes; set data.format");
  const std::uint64_t tokens = size / width;
  if (tokens < sequence + 1)
    throw Error("data file " + path + ": has " + std::to_string(tokens) + (width == 1 ? " bytes" : " tokens") +
                ", one sample needs " + std::to_string(sequence + 1) +
                "; give a longer file or a shorter model.sequence");
  return (tokens - 1) / sequence;
}

}  // namespace

Data::Data(const std::string& path, TokenFormat format, int vocabulary, int sequence, std::uint64_t seed)
    : path_(path),
      format_(format),
      vocabulary_(vocabulary),
      sequence_(static_cast<std::uint64_t>(sequence)),
      pieces_(0),
      file_(path, "data file"),
      order_(1, seed) {
  pieces_ = count_pieces(file_, path, format, sequence_);
  order_ = DataOrder(pieces_, seed);
}

std::int64_t Data::token(std::uint64_t position) const {
  const std::byte* start = file_.bytes().data() + position * token_bytes(format_);
  std::uint32_t id = 0;  // little endian, as all supported machines are
  std::memcpy(&id, start, token_bytes(format_));
  return id;
}

Batch Data::samples(std::uint64_t first, int count) const {
  Batch batch;
  const std::uint64_t tokens = sequence_ * static_cast<std::uint64_t>(count);
  batch.tokens.reserve(tokens);
  batch.targets.reserve(tokens);
  for (std::uint64_t sample = first; sample < first + static_cast<std::uint64_t>(count); ++sample) {
    const std::uint64_t start = order_.piece(sample) * sequence_;
    for (std::uint64_t i = 0; i <= sequence_; ++i) {
      const std::int64_t id = token(start + i);
      if (id >= vocabulary_)
        throw Error("data file " + path_ + ": token " + std::to_string(start + i) + ": its id " + std::to_string(id) +
                    " is beyond the vocabulary of " + std::to_string(vocabulary_) +
                    "; correct model.vocabulary or data.format");
      if (i < sequence_) batch.tokens.push_back(id);
      if (i > 0) batch.targets.push_back(id);
    }
  }
  return batch;
}

Data training_data(const Config& config) {
  return Data(config.data.path, config.data.format, config.model.vocabulary, config.model.sequence,
              config.training.seed);
}

std::optional<Data> validation_data(const Config& config) {
  if (config.data.validation.empty()) return std::nullopt;
  Data data(config.data.validation, config.data.format, config.model.vocabulary, config.model.sequence,
            config.training.seed);
  if (data.pieces() < static_cast<std::uint64_t>(config.data.validation_samples))
    throw Error("data file " + config.data.validation + ": has " + std::to_string(data.pieces()) +
                " samples, data.validation_samples is " + std::to_string(config.data.validation_samples) +
                "; give a longer file or validate on fewer");
  return data;
}

}  // namespace espalier::torchrt
