#include "torchrt/model/model_config.hpp"

#include "planner/core/error.hpp"
#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

namespace {

void must_divide(const char* divisor, int small, const char* multiple, int large) {
  if (small < 1 || large % small != 0)
    throw Error(std::string("model: ") + divisor + " = " + std::to_string(small) + " does not divide " + multiple +
                " = " + std::to_string(large) + "; choose a divisor");
}

void must_be_positive(const char* name, int value) {
  if (value < 1) throw Error(std::string("model: ") + name + " = " + std::to_string(value) + ", must be at least 1");
}

}  // namespace

ModelConfig completed(ModelConfig model) {
  const Family& kind = family(model.family);
  must_be_positive("layers", model.layers);
  must_be_positive("hidden", model.hidden);
  must_be_positive("heads", model.heads);
  must_be_positive("sequence", model.sequence);
  must_be_positive("vocabulary", model.vocabulary);
  if (model.head_size == 0) {
    must_divide("heads", model.heads, "hidden", model.hidden);
    model.head_size = model.hidden / model.heads;
  }
  if (model.key_value_heads == 0) model.key_value_heads = model.heads;
  must_divide("key_value_heads", model.key_value_heads, "heads", model.heads);
  if (model.positions == 0) model.positions = model.sequence;
  if (model.sequence > model.positions)
    throw Error("model: sequence = " + std::to_string(model.sequence) + " is longer than the " +
                std::to_string(model.positions) + " positions the model knows; train on shorter samples");
  kind.complete(model);
  if (model.mtp_layers < 0)
    throw Error("model: mtp_layers = " + std::to_string(model.mtp_layers) + ", must not be negative");
  if (model.mtp_layers > 0 && !kind.predicts_ahead)
    throw Error("model: family \"" + model.family + "\" has no multi-token prediction; remove mtp_layers");
  // The last module needs a token that is mtp_layers + 1 places behind another one in the same sample.
  if (model.mtp_layers >= model.sequence)
    throw Error("model: mtp_layers = " + std::to_string(model.mtp_layers) +
                ", must be less than sequence = " + std::to_string(model.sequence) + "; train on longer samples");
  if (!(model.mtp_weight >= 0 && model.mtp_weight <= kMostMtpWeight))
    throw Error("model: mtp_weight must lie between 0 and 10");
  must_be_positive("intermediate", model.intermediate);
  if (kind.positions == nullptr && model.head_size % 2 != 0)
    throw Error("model: heads of " + std::to_string(model.head_size) +
                " cannot be rotated in pairs; choose hidden and heads for an even quotient");
  return model;
}

}  // namespace espalier::torchrt
