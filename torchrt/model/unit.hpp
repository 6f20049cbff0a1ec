// One unit on tensors: its parameters, its forward, its gradient and its update. Includes torch.
#pragma once

#include <optional>
#include <vector>

#include "torchrt/config.hpp"
#include "torchrt/model/block.hpp"
#include "torchrt/model/compute.hpp"
#include "torchrt/model/flow.hpp"
#include "torchrt/model/gradients.hpp"
#include "torchrt/model/layers/embedding.hpp"
#include "torchrt/model/mtp.hpp"

namespace espalier::torchrt {

// Data that all units of a rank share.
struct UnitContext {
  ModelConfig model;
  TrainingConfig training;
  bool bitwise = false;
  at::TensorOptions options;            // device and the parameters' type
  std::optional<RotaryTables> rotary;   // only for families without learned positions
  std::shared_ptr<at::Tensor> scratch;  // for Gradients
  double loss_scale = 0;                // makes the loss the mean over all tokens of a step
};

class Unit {
 public:
  Unit(const UnitContext& context, const UnitView& view);
  // Moves to other memory of the state and the gradient. Call it between two steps.
  void rebind(const UnitView& view);

  int number() const { return spec_->unit; }
  const UnitSpec& spec() const { return *spec_; }
  Gradients& gradients() { return gradients_; }
  // `inputs`: as FlowRules::inputs() says. The embedding reads `tokens`. The head reads `targets` and returns the loss;
  // with several inputs the model's own loss and each MTP depth's, [1 + depths].
  at::Tensor run(const Pass& pass, const Flow& inputs, const at::Tensor& tokens, const at::Tensor& targets) const;

  void begin_step();
  // Rows of the tied table (numbers in the whole table), as the sum left them; see Compute.
  at::Tensor tied_gradient(const Range& rows);
  void add_tied(const Range& rows, const at::Tensor& received);
  // Between two steps: frees the copy of the whole table's gradient that these two keep.
  void forget_tied() { tied_before_.reset(); }
  // The gradients whose squares make this rank's part of the norm; see Compute.
  std::vector<at::Tensor> counted(bool whole) const;
  void update(std::int64_t step, double learning_rate, double scale);
  const at::Tensor& parameters() const { return parameters_; }

 private:
  // A run of the state's part with one weight decay: elements [first, first + count) of the unit.
  struct Piece {
    Range place;
    at::Tensor weights, first_moment, second_moment;  // float32
    double weight_decay = 0;
  };
  void bind(const UnitView& view);
  void add_piece(const UnitView& view, const Range& half, double weight_decay);
  Parameter find(const std::string& name) const;
  const TensorSpec& table() const;
  at::Tensor losses(const Pass& pass, const Flow& inputs, const at::Tensor& targets) const;
  at::Tensor tied_rows(const at::Tensor& gradient, const Range& rows) const;

  const UnitContext& context_;
  const UnitSpec* spec_;
  StateLayout state_;
  at::Tensor parameters_;  // flat
  std::vector<Piece> pieces_;
  BlockParameters block_;
  EmbeddingParameters embedding_;
  MtpParameters mtp_;
  std::vector<NormParameters> final_norms_;  // the model's own, then each MTP depth's
  HeadParameters head_;
  Gradients gradients_;
  at::Tensor tied_before_;  // the table's gradient before add_tied()
};

}  // namespace espalier::torchrt
