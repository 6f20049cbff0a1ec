#include "torchrt/model/layers/attention.hpp"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/triu.h>

#include <cmath>
#include <limits>

#include "torchrt/random.hpp"

namespace espalier::torchrt {

namespace {

// A kept element becomes 1, a dropped one 0. The scale 1 / (1 - probability) is no part of the mask: bfloat16 would
// round it, by 0.16% at 0.1.
void fill_mask(const at::Tensor& mask, double probability, std::uint64_t key) {
  at::Generator generator = at::globalContext().defaultGenerator(mask.device());
  generator.set_current_seed(key);
  mask.bernoulli_(1 - probability, generator);
}

std::uint64_t sample_key(const Pass& pass, std::int64_t sample, DropoutPlace place) {
  const std::uint64_t where = mix(static_cast<std::uint64_t>(pass.unit), static_cast<std::uint64_t>(place));
  return mix(mix(pass.seed, pass.first_sample + static_cast<std::uint64_t>(sample)), where);
}

at::Tensor repeated(const at::Tensor& heads, std::int64_t times) {
  if (times == 1) return heads;
  const auto shape = heads.sizes();
  return heads.unsqueeze(2)
      .expand({shape[0], shape[1], times, shape[2], shape[3]})
      .reshape({shape[0], shape[1] * times, shape[2], shape[3]});
}

// Attention with dropout of its probabilities, drawn for each sample and head of the whole model.
// Fused kernels cannot draw by sample.
at::Tensor dropped_attention(const Pass& pass, const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value) {
  const std::int64_t samples = query.size(0), heads = query.size(1), sequence = query.size(2);
  const at::Tensor future =
      at::full({sequence, sequence}, -std::numeric_limits<double>::infinity(), query.options()).triu_(1);
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor scores = at::matmul(query, key.transpose(2, 3)).mul(scale).add(future);
  const at::Tensor mask = at::empty({samples, heads, sequence, sequence}, query.options());
  for (std::int64_t sample = 0; sample < samples; ++sample)
    for (std::int64_t head = 0; head < heads; ++head)
      fill_mask(mask.select(0, sample).select(0, head), pass.model.attention_dropout,
                mix(sample_key(pass, sample, DropoutPlace::attention),
                    static_cast<std::uint64_t>(pass.tp_rank * heads + head)));
  const at::Tensor kept = at::softmax(scores, -1, at::kFloat).mul(mask).mul(1 / (1 - pass.model.attention_dropout));
  return at::matmul(kept.to(query.scalar_type()), value);
}

}  // namespace

at::Tensor attention(const Pass& pass, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const at::Tensor q = query.transpose(1, 2);
  const std::int64_t group = query.size(2) / key.size(2);
  const bool dropped = pass.dropout && pass.model.attention_dropout > 0;
  // On a GPU no fused kernel for float32 shares keys between heads.
  const bool shared = group > 1 && !dropped && !(query.is_cuda() && query.scalar_type() == at::kFloat);
  const std::int64_t times = shared ? 1 : group;
  const at::Tensor k = repeated(key.transpose(1, 2), times), v = repeated(value.transpose(1, 2), times);
  const at::Tensor mixed =
      dropped ? dropped_attention(pass, q, k, v)
              : at::scaled_dot_product_attention(q, k, v, std::nullopt, 0.0, true, std::nullopt, shared);
  return mixed.transpose(1, 2).reshape({query.size(0), query.size(1), query.size(2) * query.size(3)});
}

at::Tensor dropout(const Pass& pass, const at::Tensor& input, DropoutPlace place, double probability) {
  if (!pass.dropout || probability == 0) return input;
  const at::Tensor mask = at::empty(input.sizes(), input.options());
  for (std::int64_t sample = 0; sample < input.size(0); ++sample)
    fill_mask(mask.select(0, sample), probability, sample_key(pass, sample, place));
  return input.mul(mask).mul(1 / (1 - probability));
}

}  // namespace espalier::torchrt
