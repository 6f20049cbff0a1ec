#include "torchrt/model/units.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/error.hpp"
#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

namespace {

// Makes the tensors of one unit. They are whole at first; place() cuts them.
class UnitBuilder {
 public:
  UnitBuilder(const Family& family, const ModelConfig& model, int unit, int tp, int tp_rank)
      : family_(family), model_(model) {
    spec_.unit = unit;
    spec_.tp = tp;
    spec_.tp_rank = tp_rank;
  }

  // Sets the prefix of the next tensors. Hugging Face's names are `prefix` + module + ".weight".
  // Names in the unit leave out `prefix`.
  void prefix(std::string prefix) { prefix_ = std::move(prefix); }

  TensorSpec& matrix(const std::string& module, std::int64_t rows, std::int64_t columns, Split split, double scale) {
    TensorSpec& tensor = add(module + ".weight", {rows, columns}, split);
    tensor.init_scale = scale;
    tensor.decay = true;
    return tensor;
  }
  TensorSpec& vector(const std::string& name, std::int64_t size, Split split, float value) {
    TensorSpec& tensor = add(name, {size}, split);
    tensor.init_value = value;
    return tensor;
  }
  void norm(const std::string& module) {
    vector(module + ".weight", model_.hidden, Split::none, 1);
    if (family_.norm == NormKind::layer) vector(module + ".bias", model_.hidden, Split::none, 0);
  }
  // A bias is split as the rows of its matrix are.
  void linear(const std::string& module, std::int64_t rows, std::int64_t columns, Split split, double scale, bool bias,
              int row_parts = 1) {
    TensorSpec& weight = matrix(module, rows, columns, split, scale);
    weight.transposed = family_.transposed;
    weight.row_parts = row_parts;
    if (!bias) return;
    vector(module + ".bias", rows, split == Split::rows ? Split::rows : Split::none, 0).row_parts = row_parts;
  }

  UnitSpec place() {
    std::vector<TensorSpec>& tensors = spec_.tensors;
    std::stable_partition(tensors.begin(), tensors.end(), [](const TensorSpec& tensor) { return tensor.decay; });
    for (TensorSpec& tensor : tensors) {
      cut(tensor);
      tensor.offset = spec_.floats;
      spec_.floats += (tensor.elements() + kAlignElements - 1) / kAlignElements * kAlignElements;
      if (tensor.decay) spec_.decay_floats = spec_.floats;
    }
    return std::move(spec_);
  }

 private:
  TensorSpec& add(const std::string& name, std::vector<std::int64_t> shape, Split split) {
    TensorSpec tensor;
    tensor.name = name;
    tensor.hugging_face = prefix_ + name;
    tensor.global_shape = std::move(shape);
    tensor.split = split;
    return spec_.tensors.emplace_back(std::move(tensor));
  }

  void cut(TensorSpec& tensor) const {
    const std::int64_t rows = tensor.global_shape[0];
    const std::int64_t columns = tensor.global_shape.size() > 1 ? tensor.global_shape[1] : 1;
    tensor.columns = tensor.split == Split::columns ? even_part(columns, spec_.tp, spec_.tp_rank) : Range{0, columns};
    const std::int64_t part = rows / tensor.row_parts;
    std::int64_t held = 0;
    for (int p = 0; p < (tensor.split == Split::rows ? tensor.row_parts : 1); ++p) {
      Range range = tensor.split == Split::rows ? even_part(part, spec_.tp, spec_.tp_rank) : Range{0, rows};
      range.first += p * part;
      held += range.count;
      tensor.rows.push_back(range);
    }
    tensor.shape = {held};
    if (tensor.global_shape.size() > 1) tensor.shape.push_back(tensor.columns.count);
    tensor.sharded = spec_.tp > 1 && tensor.split != Split::none;
  }

  const Family& family_;
  const ModelConfig& model_;
  std::string prefix_;
  UnitSpec spec_;
};

// "transformer.wte" -> "transformer.", "wte"
std::pair<std::string, std::string> parent_and_name(const std::string& module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string::npos ? std::pair<std::string, std::string>{"", module}
                                  : std::pair{module.substr(0, dot + 1), module.substr(dot + 1)};
}

void add_outer(UnitBuilder& builder, const std::string& module, const auto& add) {
  const auto [parent, name] = parent_and_name(module);
  builder.prefix(parent);
  add(name);
}

void add_embedding(UnitBuilder& builder, const Family& family, const ModelConfig& model) {
  add_outer(builder, family.table, [&](const std::string& name) {
    builder.matrix(name, model.vocabulary, model.hidden, Split::rows, model.initializer_range).tied =
        model.tied_embeddings;
  });
  if (family.positions == nullptr) return;
  add_outer(builder, family.positions, [&](const std::string& name) {
    builder.matrix(name, model.positions, model.hidden, Split::none, model.initializer_range);
  });
}

void add_block(UnitBuilder& builder, const Family& family, const ModelConfig& model, int layer) {
  const std::int64_t hidden = model.hidden, queries = std::int64_t{model.heads} * model.head_size,
                     keys = std::int64_t{model.key_value_heads} * model.head_size;
  const double scale = model.initializer_range;
  // GPT-2: each block adds twice to the residual stream.
  const double residual = family.scaled_residual ? scale / std::sqrt(2.0 * model.layers) : scale;
  builder.prefix(family.layers + std::to_string(layer) + ".");
  builder.norm(family.attention_norm);
  if (family.fused != nullptr) {
    builder.linear(family.fused, 3 * queries, hidden, Split::rows, scale, model.attention_bias, 3);
  } else {
    builder.linear(family.query, queries, hidden, Split::rows, scale, model.attention_bias);
    builder.linear(family.key, keys, hidden, Split::rows, scale, model.attention_bias);
    builder.linear(family.value, keys, hidden, Split::rows, scale, model.attention_bias);
  }
  builder.linear(family.attention_output, hidden, queries, Split::columns, residual,
                 model.attention_bias && family.output_projection_biased);
  builder.norm(family.feed_forward_norm);
  if (family.gate != nullptr)
    builder.linear(family.gate, model.intermediate, hidden, Split::rows, scale, model.mlp_bias);
  builder.linear(family.up, model.intermediate, hidden, Split::rows, scale, model.mlp_bias);
  builder.linear(family.down, hidden, model.intermediate, Split::columns, residual, model.mlp_bias);
}

// The joining matrix is whole on every TP rank: each computes all of it.
void add_mtp(UnitBuilder& builder, const Family& family, const ModelConfig& model, int depth) {
  const std::int64_t hidden = model.hidden;
  builder.prefix(family.layers + std::to_string(model.layers + depth - 1) + ".");
  builder.norm(kMtpEmbeddingNorm);
  builder.norm(kMtpStateNorm);
  builder.linear(kMtpProjection, hidden, 2 * hidden, Split::none, model.initializer_range, false);
  add_block(builder, family, model, model.layers + depth - 1);
}

void add_head(UnitBuilder& builder, const Family& family, const ModelConfig& model) {
  add_outer(builder, family.final_norm, [&](const std::string& name) { builder.norm(name); });
  builder.prefix(family.layers);
  for (int depth = 1; depth <= model.mtp_layers; ++depth) builder.norm(mtp_head_norm(model, depth));
  add_outer(builder, family.head, [&](const std::string& name) {
    TensorSpec& matrix = builder.matrix(name, model.vocabulary, model.hidden, Split::rows, model.initializer_range);
    if (!model.tied_embeddings) return;
    matrix.tied = true;
    matrix.hugging_face = std::string(family.table) + ".weight";
  });
}

void must_divide(const char* what, int count, int tp) {
  if (count % tp != 0)
    throw Error(std::string("model: ") + what + " = " + std::to_string(count) +
                " cannot be divided by a tensor-parallel degree of " + std::to_string(tp) +
                "; choose a degree that divides it");
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

int unit_count(const ModelConfig& model) { return model.blocks() + 2; }

UnitPart unit_part(const ModelConfig& model, int unit) {
  if (unit == 0) return UnitPart::embedding;
  if (unit <= model.layers) return UnitPart::block;
  return unit <= model.blocks() ? UnitPart::mtp : UnitPart::head;
}

int mtp_depth(const ModelConfig& model, int unit) { return std::clamp(unit - model.layers, 0, model.mtp_layers); }

std::string mtp_head_norm(const ModelConfig& model, int depth) {
  return std::to_string(model.layers + depth - 1) + ".shared_head.norm";
}

UnitSpec unit_spec(const ModelConfig& model, int unit, int tp, int tp_rank) {
  ESPALIER_INVARIANT(0 <= unit && unit < unit_count(model) && 0 <= tp_rank && tp_rank < tp);
  must_divide("heads", model.heads, tp);
  must_divide("key_value_heads", model.key_value_heads, tp);
  must_divide("intermediate", model.intermediate, tp);
  const Family& kind = family(model.family);
  UnitBuilder builder(kind, model, unit, tp, tp_rank);
  switch (unit_part(model, unit)) {
    case UnitPart::embedding:
      add_embedding(builder, kind, model);
      break;
    case UnitPart::block:
      add_block(builder, kind, model, unit - 1);
      break;
    case UnitPart::mtp:
      add_mtp(builder, kind, model, mtp_depth(model, unit));
      break;
    case UnitPart::head:
      add_head(builder, kind, model);
  }
  return builder.place();
}

Range even_part(std::int64_t total, int parts, int index) {
  const std::int64_t first = total * index / parts;
  return {first, total * (index + 1) / parts - first};
}

}  // namespace espalier::torchrt
