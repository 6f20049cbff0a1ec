// Causal attention and dropout.
#pragma once

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

// query: [samples, sequence, heads, head_size]; key and value: the same, with this rank's key_value
// heads.
// -> [samples, sequence, heads * head_size]
at::Tensor attention(const Pass& pass, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

// The places of dropout in a unit. The random numbers of two places are unrelated.
enum class DropoutPlace { embedding, attention, after_attention, after_feed_forward };

// `input`: [samples, ...]. The dropped elements depend only on seed, sample, unit and place. They
// are the same on all TP ranks.
at::Tensor dropout(const Pass& pass, const at::Tensor& input, DropoutPlace place, double probability);

}  // namespace espalier::torchrt
