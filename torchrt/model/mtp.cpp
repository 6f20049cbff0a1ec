#include "torchrt/model/mtp.hpp"

#include <ATen/ops/cat.h>

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

MtpParameters mtp_parameters(const Family& family, const FindParameter& find) {
  const auto named = [&](const char* name, const char* what) { return find(std::string(name) + what); };
  MtpParameters parameters;
  parameters.embedding_norm = {named(kMtpEmbeddingNorm, ".weight"), named(kMtpEmbeddingNorm, ".bias")};
  parameters.state_norm = {named(kMtpStateNorm, ".weight"), named(kMtpStateNorm, ".bias")};
  parameters.projection = {named(kMtpProjection, ".weight"), named(kMtpProjection, ".bias")};
  parameters.block = block_parameters(family, find);
  return parameters;
}

at::Tensor mtp(const Pass& pass, const at::Tensor& state, const at::Tensor& embeddings, int depth,
               const MtpParameters& parameters, const std::optional<RotaryTables>& rotary) {
  const std::int64_t tokens = embeddings.size(1) - depth;
  const at::Tensor here = state.narrow(1, 0, tokens).contiguous();
  const at::Tensor there = embeddings.narrow(1, depth, tokens).contiguous();
  const at::Tensor both =
      at::cat({norm(pass, there, parameters.embedding_norm), norm(pass, here, parameters.state_norm)}, 2);
  // Every TP rank computes all of it, so nothing is summed over them.
  Pass alone = pass;
  alone.tensor_group = nullptr;
  return block(pass, linear_by_rows(alone, both, {&parameters.projection, 1}).front(), parameters.block, rotary);
}

}  // namespace espalier::torchrt
