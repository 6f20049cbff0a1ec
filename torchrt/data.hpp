// The training data: a file of tokens, cut into pieces of `sequence`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "torchrt/config.hpp"
#include "torchrt/data_fingerprint.hpp"
#include "torchrt/data_order.hpp"
#include "torchrt/input_file.hpp"

namespace espalier::torchrt {

// Tokens and, for each token, the token that follows it. `samples` x `sequence`, row by row.
struct Batch {
  std::vector<std::int64_t> tokens, targets;
};

class Data {
 public:
  // Throws Error when the file cannot be read, is shorter than one sample or holds no whole number
  // of tokens. No token is read yet.
  Data(const std::string& path, TokenFormat format, int vocabulary, int sequence, std::uint64_t seed);

  // `count` samples, beginning with number `first` of the whole training. This number is the
  // position in the data. Throws Error when a token is beyond the vocabulary, or when the file
  // cannot be read or was truncated; the Error names the position in the file.
  Batch samples(std::uint64_t first, int count) const;
  // The number of samples in one epoch.
  std::uint64_t pieces() const { return pieces_; }
  // By what the file is recognised. Throws Error when it cannot be read.
  DataFile identity() const { return {file_.path(), fingerprint(file_, format_)}; }

 private:
  template <class Token>
  void read(std::uint64_t first, int count, Batch& batch) const;

  TokenFormat format_;
  std::int64_t vocabulary_;
  std::uint64_t sequence_, pieces_;
  InputFile file_;
  DataOrder order_;
};

// The files of [data]. Throws Error, also when the validation file holds fewer than
// data.validation_samples.
Data training_data(const Config& config);
std::optional<Data> validation_data(const Config& config);

}  // namespace espalier::torchrt
