#include "torchrt/model/layers/rotary.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>

#include <cmath>
#include <numbers>

#include "torchrt/model/layers/node.hpp"

namespace espalier::torchrt {

namespace {

// LLaMA 3.1: slow turns (longer than the original context) are stretched by `factor`, fast turns
// are not, and turns between them are blended. The float32 steps are those of `transformers`, so
// that both agree on long sequences.
float stretched(float frequency, const RopeScaling& scaling) {
  if (scaling.kind == "linear") return frequency / static_cast<float>(scaling.factor);
  if (scaling.kind != "llama3") return frequency;
  const double positions = scaling.original_positions;
  const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
  if (wavelength < positions / scaling.high_frequency_factor) return frequency;
  const float slow = frequency / static_cast<float>(scaling.factor);
  if (wavelength > positions / scaling.low_frequency_factor) return slow;
  const double smooth = (positions / wavelength - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return static_cast<float>((1 - smooth) * static_cast<double>(slow) + smooth * static_cast<double>(frequency));
}

at::Tensor turned(const at::Tensor& input, const RotaryTables& tables, double direction) {
  const std::int64_t half = input.size(-1) / 2;
  at::Tensor output = at::empty_like(input, at::MemoryFormat::Contiguous);
  const at::Tensor first = input.narrow(-1, 0, half), second = input.narrow(-1, half, half);
  at::Tensor first_out = output.narrow(-1, 0, half), second_out = output.narrow(-1, half, half);
  at::mul_out(first_out, first, tables.cosine).addcmul_(second, tables.sine, -direction);
  at::mul_out(second_out, second, tables.cosine).addcmul_(first, tables.sine, direction);
  return output;
}

struct RotaryNode : torch::autograd::Node {
  RotaryTables tables;
  variable_list apply(variable_list&& outputs) override { return {turned(outputs[0], tables, -1)}; }
  std::string name() const override { return "Rotary"; }
};

}  // namespace

RotaryTables rotary_tables(const ModelConfig& model, const at::TensorOptions& options) {
  const int half = model.head_size / 2;
  std::vector<float> cosine, sine;
  std::vector<float> frequencies;
  for (int i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(model.head_size);
    frequencies.push_back(
        stretched(1.0F / std::pow(static_cast<float>(model.rope_theta), exponent), model.rope_scaling));
  }
  for (int position = 0; position < model.sequence; ++position)
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  const auto table = [&](std::vector<float>& values) {
    return at::from_blob(values.data(), {model.sequence, 1, half}, at::TensorOptions().dtype(at::kFloat))
        .to(options.device(), at::typeMetaToScalarType(options.dtype()), false, true);
  };
  return {table(cosine), table(sine)};
}

at::Tensor rotate(const Pass& pass, const at::Tensor& input, const RotaryTables& all) {
  at::Tensor output;
  RotaryTables tables;
  {
    const at::AutoDispatchBelowADInplaceOrView without_graph;
    tables = {all.cosine.narrow(0, 0, input.size(1)), all.sine.narrow(0, 0, input.size(1))};
    output = turned(input, tables, 1);
  }
  if (pass.gradients == nullptr) return output;
  const auto node = make_node<RotaryNode>(input);
  node->tables = tables;
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace espalier::torchrt
