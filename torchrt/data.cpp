#include "torchrt/data.hpp"

#include <span>

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

std::uint64_t count_pieces(const InputFile& file, TokenFormat format, std::uint64_t sequence) {
  const std::string& path = file.path();
  const std::uint64_t size = file.size(), width = token_bytes(format);
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
    : format_(format),
      vocabulary_(vocabulary),
      sequence_(static_cast<std::uint64_t>(sequence)),
      pieces_(0),
      file_(path, "data file"),
      order_(1, seed) {
  pieces_ = count_pieces(file_, format, sequence_);
  order_ = DataOrder(pieces_, seed);
}

// A sample's tokens lie side by side, so each sample is one read.
template <class Token>
void Data::read(std::uint64_t first, int count, Batch& batch) const {
  std::vector<Token> piece(sequence_ + 1);  // little endian, as all supported machines are
  for (std::uint64_t sample = first; sample < first + static_cast<std::uint64_t>(count); ++sample) {
    const std::uint64_t start = order_.piece(sample) * sequence_;
    file_.read(start * sizeof(Token), std::as_writable_bytes(std::span(piece)));
    for (std::uint64_t i = 0; i <= sequence_; ++i) {
      const auto id = static_cast<std::int64_t>(piece[i]);
      if (id >= vocabulary_)
        throw Error("data file " + file_.path() + ": token " + std::to_string(start + i) + ": its id " +
                    std::to_string(id) + " is beyond the vocabulary of " + std::to_string(vocabulary_) +
                    "; correct model.vocabulary or data.format");
      if (i < sequence_) batch.tokens.push_back(id);
      if (i > 0) batch.targets.push_back(id);
    }
  }
}

Batch Data::samples(std::uint64_t first, int count) const {
  Batch batch;
  const std::uint64_t tokens = sequence_ * static_cast<std::uint64_t>(count);
  batch.tokens.reserve(tokens);
  batch.targets.reserve(tokens);
  switch (format_) {
    case TokenFormat::bytes:
      read<std::uint8_t>(first, count, batch);
      break;
    case TokenFormat::uint16:
      read<std::uint16_t>(first, count, batch);
      break;
    case TokenFormat::uint32:
      read<std::uint32_t>(first, count, batch);
      break;
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
