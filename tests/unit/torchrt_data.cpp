#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/data.hpp"
#include "torchrt/learning_rate.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

class TestData {
 public:
  explicit TestData(std::size_t size) {
    std::ofstream out(path_, std::ios::binary);
    for (std::size_t i = 0; i < size; ++i) out.put(static_cast<char>(i * 7));
  }
  template <class Token>
  explicit TestData(const std::vector<Token>& tokens) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * sizeof(Token)));
  }
  ~TestData() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/espalier-data-" + std::to_string(::getpid());
};

Data bytes(const std::string& path, int sequence, std::uint64_t seed = 1) {
  return Data(path, TokenFormat::bytes, 256, sequence, seed);
}

}  // namespace

TEST_CASE("every epoch visits every piece once, each in an order of its own") {
  for (const std::uint64_t pieces : {1u, 2u, 3u, 10u, 1000u}) {
    const DataOrder order(pieces, 42);
    std::vector<std::uint64_t> first, second;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      first.push_back(order.piece(i));
      second.push_back(order.piece(pieces + i));
    }
    CHECK(std::set(first.begin(), first.end()).size() == pieces);
    CHECK(std::set(second.begin(), second.end()).size() == pieces);
    CHECK(*std::max_element(first.begin(), first.end()) == pieces - 1);
    if (pieces >= 10) CHECK(first != second);
  }
}

TEST_CASE("another seed gives another order") {
  const DataOrder a(1000, 1), b(1000, 2);
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) same += a.piece(i) == b.piece(i) ? 1 : 0;
  CHECK(same < 20);
}

TEST_CASE("a target is the byte after its token, and samples do not depend on how they are asked for") {
  const TestData file(1001);
  const Data data = bytes(file.path(), 10, 3);
  const Batch together = data.samples(95, 10);  // crosses into the second epoch
  REQUIRE(together.tokens.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) CHECK(together.targets[i] == (together.tokens[i] + 7) % 256);
  for (int s = 0; s < 10; ++s) {
    const Batch alone = data.samples(95 + static_cast<std::uint64_t>(s), 1);
    CHECK(std::equal(alone.tokens.begin(), alone.tokens.end(), together.tokens.begin() + s * 10));
  }
}

TEST_CASE("a data file shorter than one sample is an error, one byte more is not") {
  {
    const TestData file(10);
    CHECK_THROWS_AS(bytes(file.path(), 10), Error);
  }
  const TestData file(11);
  CHECK(bytes(file.path(), 10).samples(5, 1).tokens.size() == 10);
  CHECK_THROWS_AS(bytes("/nonexistent/file", 10), Error);
  CHECK_THROWS_AS(bytes("/tmp", 10), Error);
}

TEST_CASE("tokens of 16 and 32 bits are read, little endian") {
  const auto check = [](auto token, TokenFormat format, int vocabulary) {
    std::vector<decltype(token)> tokens;
    for (int i = 0; i < 21; ++i) tokens.push_back(static_cast<decltype(token)>(vocabulary - 1 - i));
    const TestData file(tokens);
    const Batch batch = Data(file.path(), format, vocabulary, 20, 1).samples(0, 1);
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(batch.tokens[i] == tokens[i]);
      CHECK(batch.targets[i] == tokens[i + 1]);
    }
  };
  check(std::uint16_t{}, TokenFormat::uint16, 65536);
  check(std::uint32_t{}, TokenFormat::uint32, 1 << 20);
}

TEST_CASE("a token beyond the vocabulary is refused by file, position and id, when it is used") {
  std::vector<std::uint16_t> tokens(41, 99);
  tokens[33] = 100;
  const TestData file(tokens);
  const Data data(file.path(), TokenFormat::uint16, 100, 10, 1);
  int refused = 0;
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    try {
      data.samples(sample, 1);
    } catch (const Error& problem) {
      ++refused;
      CHECK(std::string(problem.what()) == "data file " + file.path() +
                                               ": token 33: its id 100 is beyond the vocabulary of 100; correct "
                                               "model.vocabulary or data.format");
    }
  }
  CHECK(refused == 1);
}

TEST_CASE("half a token at the end is refused, so is a file of too few tokens") {
  const TestData file(23);
  CHECK_THROWS_WITH_AS(Data(file.path(), TokenFormat::uint16, 65536, 4, 1),
                       doctest::Contains("has 23 bytes, no whole number of tokens of 2 bytes; set data.format"), Error);
  const TestData even(20);
  CHECK_THROWS_WITH_AS(Data(even.path(), TokenFormat::uint16, 65536, 10, 1),
                       doctest::Contains("has 10 tokens, one sample needs 11"), Error);
}

TEST_CASE("a data file that is truncated while it is read from is an Error of file, byte and remedy") {
  const TestData file(50'001);
  const Data data = bytes(file.path(), 1000);
  REQUIRE(::truncate(file.path().c_str(), 1) == 0);  // as a copy that is written anew does
  CHECK_THROWS_WITH_AS(data.samples(0, 50), doctest::Contains(("data file " + file.path() + ": byte ").c_str()), Error);
  CHECK_THROWS_WITH_AS(
      data.samples(0, 50),
      doctest::Contains("is not there any more: the file was truncated while it was in use; restore it"), Error);
}

TEST_CASE("a validation file with fewer samples than asked for is refused") {
  const TestData file(100);
  Config config;
  config.model.sequence = 10;
  config.data.path = config.data.validation = file.path();
  config.data.validation_samples = 9;
  CHECK(validation_data(config)->pieces() == 9);
  config.data.validation_samples = 10;
  CHECK_THROWS_WITH_AS(validation_data(config), doctest::Contains("has 9 samples, data.validation_samples is 10"),
                       Error);
  config.data.validation.clear();
  CHECK_FALSE(validation_data(config));
}

TEST_CASE("the learning rate warms up linearly and falls along a cosine to its minimum") {
  TrainingConfig training;
  training.steps = 110;
  training.warmup_steps = 10;
  training.learning_rate = 1;
  training.minimum_learning_rate = 0.2;
  CHECK(learning_rate(training, 1) == doctest::Approx(0.1));
  CHECK(learning_rate(training, 10) == doctest::Approx(1));
  CHECK(learning_rate(training, 60) == doctest::Approx(0.6));
  CHECK(learning_rate(training, 110) == doctest::Approx(0.2));
  CHECK(learning_rate(training, 500) == doctest::Approx(0.2));
}
