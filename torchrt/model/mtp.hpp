// An MTP module: predicts one token further ahead than the depth before it (DeepSeek-V3, section 2.2, eq. 21 and 22).
// Includes torch.
#pragma once

#include "torchrt/model/block.hpp"

namespace espalier::torchrt {

struct MtpParameters {
  NormParameters embedding_norm, state_norm;
  LinearParameters projection;  // [hidden, 2 hidden]; columns of the embedding first, as in DeepSeek-V3's files
  BlockParameters block;
};

MtpParameters mtp_parameters(const Family& family, const FindParameter& find);

// `state` of the depth before and `embeddings` of all tokens, [samples, tokens, hidden] -> the state of `depth`, which
// has `depth` tokens less than the embeddings: position i joins its state with the embedding of token i + depth.
at::Tensor mtp(const Pass& pass, const at::Tensor& state, const at::Tensor& embeddings, int depth,
               const MtpParameters& parameters, const std::optional<RotaryTables>& rotary);

}  // namespace espalier::torchrt
