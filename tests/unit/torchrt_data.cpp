#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "planner/core/error.hpp"
#include "torchrt/data.hpp"
#include "torchrt/learning_rate.hpp"
#include "torchrt/model/initialise.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

class DataFile {
 public:
  explicit DataFile(std::size_t size) {
    std::ofstream out(path_, std::ios::binary);
    for (std::size_t i = 0; i < size; ++i) out.put(static_cast<char>(i * 7));
  }
  ~DataFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/espalier-data-" + std::to_string(::getpid());
};

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
  const DataFile file(1001);
  const Data data(file.path(), 10, 3);
  const Batch together = data.samples(95, 10);  // crosses the end of the first epoch
  REQUIRE(together.tokens.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) CHECK(together.targets[i] == (together.tokens[i] + 7) % 256);
  for (int s = 0; s < 10; ++s) {
    const Batch alone = data.samples(95 + static_cast<std::uint64_t>(s), 1);
    CHECK(std::equal(alone.tokens.begin(), alone.tokens.end(), together.tokens.begin() + s * 10));
  }
}

TEST_CASE("a data file shorter than one sample is an error, one byte more is not") {
  {
    const DataFile file(10);
    CHECK_THROWS_AS(Data(file.path(), 10, 1), Error);
  }
  const DataFile file(11);
  CHECK(Data(file.path(), 10, 1).samples(5, 1).tokens.size() == 10);
  CHECK_THROWS_AS(Data("/nonexistent/file", 10, 1), Error);
  CHECK_THROWS_AS(Data("/tmp", 10, 1), Error);
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

TEST_CASE("tensors of a unit are aligned, apart, and those with weight decay come first") {
  ModelConfig model{3, 24, 2, 10, 256};
  const std::vector<UnitSpec> units = unit_specs(model);
  REQUIRE(units.size() == 5);
  for (const UnitSpec& unit : units) {
    std::size_t end = 0;
    for (const TensorSpec& tensor : unit.tensors) {
      CHECK(tensor.offset % 16 == 0);
      CHECK(tensor.offset >= end);
      CHECK(tensor.decay == (tensor.offset < unit.decay_floats));
      end = tensor.offset + tensor.elements();
    }
    CHECK(end <= unit.floats);
    CHECK(unit.state_bytes() == 12 * unit.floats);
  }
  std::size_t parameters = 0;
  for (const UnitSpec& unit : units)
    for (const TensorSpec& tensor : unit.tensors) parameters += tensor.elements();
  CHECK(parameters == 256 * 24 + 10 * 24 + 3 * (12 * 24 * 24 + 13 * 24) + 2 * 24 + 256 * 24);
}

TEST_CASE("initial values depend on seed, unit and tensor, and have the asked-for spread") {
  const std::vector<UnitSpec> units = unit_specs({2, 64, 2, 16, 256});
  const auto values = [&](std::size_t unit, std::uint64_t seed) {
    std::vector<float> out(units[unit].floats, 0.0F);
    initialise(units[unit], seed, out);
    return out;
  };
  CHECK(values(1, 5) == values(1, 5));
  CHECK(values(1, 5) != values(2, 5));
  CHECK(values(1, 5) != values(1, 6));
  const std::vector<float> block = values(1, 5);
  const TensorSpec& matrix = units[1].tensor("mlp.c_fc.weight");
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < matrix.elements(); ++i) {
    const double value = static_cast<double>(block[matrix.offset + i]);
    sum += value;
    squares += value * value;
  }
  const double count = static_cast<double>(matrix.elements());
  CHECK(sum / count == doctest::Approx(0).epsilon(0.001));
  CHECK(squares / count == doctest::Approx(0.02 * 0.02).epsilon(0.05));
  CHECK(block[units[1].tensor("ln_1.weight").offset] == 1.0F);
}
