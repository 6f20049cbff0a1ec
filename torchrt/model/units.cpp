#include "torchrt/model/units.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

constexpr std::size_t kAlignFloats = 16;  // 64 bytes: kernels then take the same path wherever the unit lies

TensorSpec matrix(std::string name, std::int64_t rows, std::int64_t columns, double scale) {
  return {std::move(name), {rows, columns}, scale, 0, true};
}
TensorSpec vector(std::string name, std::int64_t size, float value) {
  return {std::move(name), {size}, 0, value, false};
}

UnitSpec place(int unit, std::vector<TensorSpec> tensors) {
  UnitSpec spec;
  spec.unit = unit;
  std::stable_partition(tensors.begin(), tensors.end(), [](const TensorSpec& tensor) { return tensor.decay; });
  for (TensorSpec& tensor : tensors) {
    tensor.offset = spec.floats;
    spec.floats += (tensor.elements() + kAlignFloats - 1) / kAlignFloats * kAlignFloats;
    if (tensor.decay) spec.decay_floats = spec.floats;
  }
  spec.tensors = std::move(tensors);
  return spec;
}

}  // namespace

std::size_t TensorSpec::elements() const {
  std::size_t product = 1;
  for (const std::int64_t size : shape) product *= static_cast<std::size_t>(size);
  return product;
}

const TensorSpec& UnitSpec::tensor(const std::string& name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorSpec& tensor) { return tensor.name == name; });
  ESPALIER_INVARIANT(found != tensors.end());
  return *found;
}

std::vector<UnitSpec> unit_specs(const ModelConfig& model) {
  const std::int64_t hidden = model.hidden;
  const double scale = 0.02;
  const double residual = scale / std::sqrt(2.0 * model.layers);  // GPT-2: each block adds twice to the residual stream
  std::vector<UnitSpec> units;
  units.push_back(place(0, {matrix("wte.weight", model.vocabulary, hidden, scale),
                            matrix("wpe.weight", model.sequence, hidden, scale / 2)}));
  for (int layer = 1; layer <= model.layers; ++layer)
    units.push_back(place(
        layer, {vector("ln_1.weight", hidden, 1), vector("ln_1.bias", hidden, 0),
                matrix("attn.c_attn.weight", 3 * hidden, hidden, scale), vector("attn.c_attn.bias", 3 * hidden, 0),
                matrix("attn.c_proj.weight", hidden, hidden, residual), vector("attn.c_proj.bias", hidden, 0),
                vector("ln_2.weight", hidden, 1), vector("ln_2.bias", hidden, 0),
                matrix("mlp.c_fc.weight", 4 * hidden, hidden, scale), vector("mlp.c_fc.bias", 4 * hidden, 0),
                matrix("mlp.c_proj.weight", hidden, 4 * hidden, residual), vector("mlp.c_proj.bias", hidden, 0)}));
  units.push_back(place(model.layers + 1, {vector("ln_f.weight", hidden, 1), vector("ln_f.bias", hidden, 0),
                                           matrix("lm_head.weight", model.vocabulary, hidden, scale)}));
  return units;
}

}  // namespace espalier::torchrt
