// The training data: a memory-mapped file of tokens, cut into pieces of `sequence`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/config.hpp"
#include "torchrt/data_order.hpp"
#include "torchrt/mapped_file.hpp"

namespace espalier::torchrt {

// Tokens and, for each, the token that follows. `samples` x `sequence`, row by row.
struct Batch {
  std::vector<std::int64_t> tokens, targets;
};

class Data {
 public:
  // Throws Error when the file cannot be read, is shorter than one sample or no whole number of tokens. Nothing of it
  // is read yet.
  Data(const std::string& path, TokenFormat format, int vocabulary, int sequence, std::uint64_t seed);

  // `count` samples from number `first` of the whole training: the position in the data is this one number. Throws
  // Error when one of them holds a token beyond the vocabulary, naming its position in the file.
  Batch samples(std::uint64_t first, int count) const;
  // In one epoch.
  std::uint64_t pieces() const { return pieces_; }

 private:
  std::int64_t token(std::uint64_t position) const;

  std::string path_;
  TokenFormat format_;
  std::int64_t vocabulary_;
  std::uint64_t sequence_, pieces_;
  MappedFile file_;
  DataOrder order_;
};

// The files of [data]. Throws Error; also when the validation file holds fewer than data.validation_samples.
Data training_data(const Config& config);
std::optional<Data> validation_data(const Config& config);

}  // namespace espalier::torchrt
