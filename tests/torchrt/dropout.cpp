// dropout compares what dropout leaves of random values with their exact scale, in float32 and bfloat16. Prints each
// difference and ends with 1.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>

#include "torchrt/model/layers/attention.hpp"

namespace {

using namespace espalier::torchrt;

// The mean of kept values over that of the same values before. Rounded values lie above and below evenly, a rounded
// scale does not.
double scale_of(const at::Tensor& dropped, const at::Tensor& before) {
  const at::Tensor kept = dropped.ne(0);
  const at::Tensor was = at::where(kept, before.to(at::kDouble), at::zeros({1}, at::kDouble));
  return dropped.to(at::kDouble).sum().item<double>() / was.sum().item<double>();
}

}  // namespace

int main() {
  int problems = 0;
  ModelConfig model;
  for (const double probability : {0.1, 0.3})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      model.attention_dropout = probability;
      const Pass pass{model, nullptr, 1, 0, nullptr, true, 7, 0, 0};
      const at::Tensor input = (at::rand({64, 8192}) + 1).to(type);
      const double scale = scale_of(dropout(pass, input, DropoutPlace::embedding, probability), input);
      // Queries of zero attend to all tokens before them alike, so that the last token's output is the mean of what is
      // kept.
      const at::Tensor zeros = at::zeros({64, 256, 4, 1}, at::TensorOptions().dtype(type)), ones = at::ones_like(zeros);
      const double mean = attention(pass, zeros, zeros, ones).to(at::kDouble).narrow(1, 255, 1).mean().item<double>();
      std::printf("probability %.1f in %s: kept values are scaled by %.5f, attention sums to %.5f\n", probability,
                  at::toString(type), scale, mean);
      if (std::abs(scale * (1 - probability) - 1) > 3e-4) ++problems;
      if (std::abs(mean - 1) > 0.01) ++problems;
    }
  return problems == 0 ? 0 : 1;
}
