#include "torchrt/model/unit.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include "planner/core/error.hpp"
#include "torchrt/model/layers/attention.hpp"
#include "torchrt/model/mapped_tensor.hpp"

namespace espalier::torchrt {

namespace {

std::int64_t integer(std::size_t value) { return static_cast<std::int64_t>(value); }

// Each MTP depth adds another gradient of a sample to the head's matrix.
std::int64_t added_gradients(const UnitContext& context) {
  return std::int64_t{context.training.global_batch} * (1 + context.model.mtp_layers);
}

std::string last_name(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

Unit::Unit(const UnitContext& context, const UnitView& view)
    : context_(context),
      spec_(view.spec),
      gradients_(*view.spec, view.gradient, context.options, context.bitwise, added_gradients(context),
                 context.model.sequence, context.scratch) {
  bind(view);
}

void Unit::rebind(const UnitView& view) {
  bind(view);
  gradients_.rebind(view.gradient);
}

void Unit::bind(const UnitView& view) {
  spec_ = view.spec;
  state_ = view.state;
  parameters_ = mapped_tensor(view.memory, {integer(state_.floats)}, context_.options);
  pieces_.clear();
  const Range decaying{0, integer(spec_->decay_floats)};
  add_piece(view, decaying, context_.training.weight_decay);
  add_piece(view, {decaying.count, integer(spec_->floats) - decaying.count}, 0);
  const Family& kind = family(context_.model.family);
  const auto named = [this](const std::string& name) { return find(name); };
  const auto rows = [&](const Parameter& table) {
    return spec_->tensors[static_cast<std::size_t>(table.index)].rows[0];
  };
  const auto norm_named = [&](const std::string& name) {
    return NormParameters{find(name + ".weight"), find(name + ".bias")};
  };
  switch (unit_part(context_.model, spec_->unit)) {
    case UnitPart::embedding:
      embedding_.table = find(last_name(kind.table) + ".weight");
      if (kind.positions != nullptr) embedding_.positions = find(last_name(kind.positions) + ".weight");
      embedding_.rows = rows(embedding_.table);
      break;
    case UnitPart::block:
      block_ = block_parameters(kind, named);
      break;
    case UnitPart::mtp:
      mtp_ = mtp_parameters(kind, named);
      break;
    case UnitPart::head:
      final_norms_ = {norm_named(last_name(kind.final_norm))};
      for (int depth = 1; depth <= context_.model.mtp_layers; ++depth)
        final_norms_.push_back(norm_named(mtp_head_norm(context_.model, depth)));
      head_.weight = find(last_name(kind.head) + ".weight");
      head_.rows = rows(head_.weight);
  }
}

void Unit::add_piece(const UnitView& view, const Range& half, double weight_decay) {
  const Range place = intersection(half, state_.shard);
  if (place.count == 0) return;
  char* const memory = static_cast<char*>(view.memory);
  const auto flat = [&](std::size_t offset, std::int64_t first) {
    return mapped_tensor(memory + offset + static_cast<std::size_t>(first) * sizeof(float), {place.count},
                         context_.options.dtype(at::kFloat));
  };
  const std::int64_t in_shard = place.first - state_.shard.first;
  Piece piece;
  piece.place = place;
  piece.weights = state_.has_master() ? flat(state_.master_offset(), in_shard) : flat(0, place.first);
  piece.first_moment = flat(state_.first_moment_offset(), in_shard);
  piece.second_moment = flat(state_.second_moment_offset(), in_shard);
  piece.weight_decay = weight_decay;
  pieces_.push_back(std::move(piece));
}

Parameter Unit::find(const std::string& name) const {
  for (std::size_t i = 0; i < spec_->tensors.size(); ++i) {
    const TensorSpec& tensor = spec_->tensors[i];
    if (tensor.name == name)
      return {parameters_.narrow(0, integer(tensor.offset), integer(tensor.elements())).view(tensor.shape),
              static_cast<int>(i)};
  }
  return {};
}

at::Tensor Unit::run(const Pass& pass, const Flow& inputs, const at::Tensor& tokens, const at::Tensor& targets) const {
  switch (unit_part(context_.model, spec_->unit)) {
    case UnitPart::embedding:
      return dropout(pass, embed(pass, tokens, embedding_), DropoutPlace::embedding, context_.model.embedding_dropout);
    case UnitPart::block:
      return block(pass, inputs.front(), block_, context_.rotary);
    case UnitPart::mtp:
      return mtp(pass, inputs.front(), inputs.back(), mtp_depth(context_.model, spec_->unit), mtp_, context_.rotary);
    case UnitPart::head:
      return losses(pass, inputs, targets);
  }
  return {};
}

// Depth k predicts from position i the token of position i + k + 1, which is target i + k (DeepSeek-V3, eq. 24, 25).
at::Tensor Unit::losses(const Pass& pass, const Flow& inputs, const at::Tensor& targets) const {
  std::vector<at::Tensor> found;
  for (std::size_t depth = 0; depth < inputs.size(); ++depth) {
    const at::Tensor wanted = targets.narrow(1, integer(depth), inputs[depth].size(1));
    const double weight = depth == 0 ? 1 : context_.model.mtp_weight / context_.model.mtp_layers;
    found.push_back(
        head_loss(pass, norm(pass, inputs[depth], final_norms_[depth]), wanted, head_, context_.loss_scale * weight));
  }
  return found.size() == 1 ? found.front() : at::stack(found);
}

void Unit::begin_step() {
  gradients_.begin();
  forget_tied();
}

const TensorSpec& Unit::table() const {
  for (const TensorSpec& tensor : spec_->tensors)
    if (tensor.tied) return tensor;
  throw Error("model: unit " + std::to_string(spec_->unit) + " has no tied table");
}

at::Tensor Unit::tied_rows(const at::Tensor& gradient, const Range& rows) const {
  const TensorSpec& tensor = table();
  ESPALIER_INVARIANT(intersection(rows, tensor.rows[0]) == rows);
  return gradient.view(tensor.shape).narrow(0, rows.first - tensor.rows[0].first, rows.count);
}

at::Tensor Unit::tied_gradient(const Range& rows) {
  const TensorSpec& tensor = table();
  if (!tied_before_.defined())
    tied_before_ = gradients_.values().narrow(0, integer(tensor.offset), integer(tensor.elements())).clone();
  return tied_rows(tied_before_, rows);
}

void Unit::add_tied(const Range& rows, const at::Tensor& received) {
  tied_gradient(rows);  // keeps a copy of the gradient before it changes
  const TensorSpec& tensor = table();
  tied_rows(gradients_.values().narrow(0, integer(tensor.offset), integer(tensor.elements())), rows)
      .add_(received.view({rows.count, -1}));
}

std::vector<at::Tensor> Unit::counted(bool whole) const {
  std::vector<at::Tensor> parts;
  for (const TensorSpec& tensor : spec_->tensors) {
    const bool counted = (tensor.sharded || spec_->tp_rank == 0) && !(tensor.tied && spec_->unit != 0);
    if (!counted) continue;
    const Range all{integer(tensor.offset), integer(tensor.elements())};
    const Range place = whole ? all : intersection(all, state_.shard);
    if (place.count > 0) parts.push_back(gradients_.values().narrow(0, place.first, place.count));
  }
  return parts;
}

void Unit::update(std::int64_t step, double learning_rate, double scale) {
  const at::NoGradGuard no_grad;
  const TrainingConfig& training = context_.training;
  const at::Tensor steps = at::full({}, static_cast<double>(step), context_.options.dtype(at::kFloat));
  for (Piece& piece : pieces_) {
    const at::Tensor gradient = gradients_.values().narrow(0, piece.place.first, piece.place.count);
    if (scale != 1.0) gradient.mul_(scale);
    at::_fused_adamw_({piece.weights}, {gradient}, {piece.first_moment}, {piece.second_moment}, {}, {steps},
                      learning_rate, training.beta1, training.beta2, piece.weight_decay, training.epsilon, false,
                      false);
    if (state_.has_master()) parameters_.narrow(0, piece.place.first, piece.place.count).copy_(piece.weights);
  }
}

}  // namespace espalier::torchrt
