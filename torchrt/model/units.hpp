// The model as a sequence of units. A unit has named tensors at fixed places of one allocation, cut
// for tensor parallelism. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "torchrt/model/model_config.hpp"
#include "torchrt/range.hpp"

namespace espalier::torchrt {

// How tensor parallelism cuts a tensor: by output (rows), by input (columns), or not at all.
enum class Split { none, rows, columns };

// A tensor, or one TP rank's shard of it. Orientation: [output, input].
struct TensorSpec {
  std::string name;          // name in the unit: "attn.c_attn.weight"
  std::string hugging_face;  // name in the model: "transformer.h.3.attn.c_attn.weight"
  bool transposed = false;   // Hugging Face stores the transpose
  // Of the whole tensor in this orientation; one or two dimensions.
  std::vector<std::int64_t> global_shape;
  // This shard is the concatenation of these rows of the whole tensor, restricted to these columns.
  // A tensor of one dimension has columns = {0, 1}.
  std::vector<Range> rows;
  Range columns;
  std::vector<std::int64_t> shape;  // of the shard
  Split split = Split::none;
  // The rows are this many equal parts, each cut by itself (a fused query, key and value: 3).
  int row_parts = 1;
  bool tied = false;      // the table that the first and the last unit share
  double init_scale = 0;  // standard deviation of the initial values; 0: `init_value` everywhere
  float init_value = 0;
  bool decay = false;      // weight decay applies
  std::size_t offset = 0;  // elements from the start of the unit's parameters; a multiple of kAlignElements
  bool sharded = false;    // it is a shard, and TP > 1
  std::size_t elements() const;
  // The same on all TP ranks. The gradient's norm counts it once, on TP rank 0.
  bool replicated() const { return !sharded; }
};

// Tensors with weight decay come first, so that each half takes one fused update.
struct UnitSpec {
  int unit = 0;
  int tp = 1, tp_rank = 0;
  std::vector<TensorSpec> tensors;
  std::size_t decay_floats = 0;  // elements of the first half
  std::size_t floats = 0;        // elements including padding, which stays zero
  const TensorSpec& tensor(const std::string& name) const;
};

// Tensors begin at multiples of it, so that kernels take the same path for all. A ZeRO shard
// consists of whole pieces of this size.
constexpr std::size_t kAlignElements = 64;

// An MTP module (multi-token prediction, DeepSeek-V3, section 2.2) joins the state of the depth before it with the
// embeddings of tokens further ahead, and has a transformer block. The table is the embedding's, and the matrix of the
// logits is the head's: both exist once. The head has the modules' last norms, too.
enum class UnitPart { embedding, block, mtp, head };

// Units 0 (embedding), 1..layers (blocks), then mtp_layers modules, then one with the final norm and the head.
int unit_count(const ModelConfig& model);
UnitPart unit_part(const ModelConfig& model, int unit);
// Of an MTP module: 1 for the first, which predicts one token further than the model itself. 0 for blocks and
// embedding.
int mtp_depth(const ModelConfig& model, int unit);
// Names of the modules' own tensors, without ".weight": norms of the embeddings and of the state, the matrix that joins
// the two in this order, and, in the head, the norm before the logits (the names in DeepSeek-V3's files).
constexpr const char* kMtpEmbeddingNorm = "enorm";
constexpr const char* kMtpStateNorm = "hnorm";
constexpr const char* kMtpProjection = "eh_proj";
// "8.shared_head.norm": the modules are numbered on after the layers.
std::string mtp_head_norm(const ModelConfig& model, int depth);
// The shard of one unit on TP rank `tp_rank` of `tp`. Throws Error when `tp` does not divide the
// heads, the key and value heads, or the feed-forward's width. It need not divide the vocabulary.
UnitSpec unit_spec(const ModelConfig& model, int unit, int tp = 1, int tp_rank = 0);

// Part `index` of `total`, cut into `parts` parts as equal as possible: [total * index / parts,
// total * (index + 1) / parts).
Range even_part(std::int64_t total, int parts, int index);

}  // namespace espalier::torchrt
