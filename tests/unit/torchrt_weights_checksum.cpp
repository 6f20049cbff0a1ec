#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/torchrt_models.hpp"
#include "torchrt/model/initialise.hpp"
#include "torchrt/weights_checksum.hpp"

using namespace espalier::torchrt;

namespace {

// The checksum of the whole model, with `tp` ranks for each unit.
std::uint64_t checksum(const ModelConfig& model, int tp, std::uint64_t seed = 3) {
  std::uint64_t sum = 0;
  for (int unit = 0; unit < unit_count(model); ++unit)
    for (int rank = 0; rank < tp; ++rank) {
      const UnitSpec spec = unit_spec(model, unit, tp, rank);
      std::vector<float> parameters(spec.floats, 0.0F);
      initialise(spec, seed, parameters);
      sum += weights_checksum(spec, DataType::float32, parameters.data());
    }
  return sum;
}

}  // namespace

TEST_CASE("the checksum of the weights does not depend on the TP degree") {
  for (const bool tied : {true, false}) {
    const ModelConfig model = small_model("gpt2", tied);
    CHECK(checksum(model, 1) == checksum(model, 2));
    CHECK(checksum(model, 1) == checksum(model, 4));
    CHECK(checksum(model, 1) != checksum(model, 1, 4));
  }
}

TEST_CASE("the checksum of the weights sees one bit, and which element has it") {
  const UnitSpec spec = unit_spec(small_model("gpt2"), 1);
  std::vector<float> parameters(spec.floats, 0.0F);
  const std::uint64_t zeros = weights_checksum(spec, DataType::float32, parameters.data());
  parameters[3] = -0.0F;
  const std::uint64_t fourth = weights_checksum(spec, DataType::float32, parameters.data());
  std::swap(parameters[3], parameters[4]);
  CHECK(fourth != zeros);
  CHECK(weights_checksum(spec, DataType::float32, parameters.data()) != fourth);
  CHECK(weights_checksum(spec, DataType::bfloat16, parameters.data()) != zeros);
}
