// GPT-2: learned positions, layer norms, one fused matrix for query, key and value, linear layers stored transposed.
#include "planner/core/error.hpp"
#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

namespace {

void complete(ModelConfig& model) {
  if (model.intermediate == 0) model.intermediate = 4 * model.hidden;
  if (model.key_value_heads != model.heads)
    throw Error("model: key_value_heads = " + std::to_string(model.key_value_heads) +
                "; gpt2 has as many as heads, use llama or qwen2 for grouped-query attention");
  if (model.head_size * model.heads != model.hidden)
    throw Error("model: head_size = " + std::to_string(model.head_size) + "; gpt2's is hidden / heads");
  model.attention_bias = model.mlp_bias = true;
}

void read(ConfigJson& json, ModelConfig& model) {
  json.require("n_layer", model.layers);
  json.require("n_embd", model.hidden);
  json.require("n_head", model.heads);
  json.require("n_positions", model.positions);
  json.read("n_inner", model.intermediate);
  json.read("layer_norm_epsilon", model.norm_epsilon);
  model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.1;  // Hugging Face's default
  json.read("embd_pdrop", model.embedding_dropout);
  json.read("resid_pdrop", model.residual_dropout);
  json.read("attn_pdrop", model.attention_dropout);
  std::string activation = "gelu_new";
  json.read("activation_function", activation);
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") model.activation = Activation::gelu_tanh;
  else if (activation == "gelu") model.activation = Activation::gelu;
  else json.fail("activation_function", "\"" + activation + "\" is not supported; use \"gelu_new\" or \"gelu\"");
  json.only("scale_attn_weights", true);
  json.only("scale_attn_by_inverse_layer_idx", false);
  json.only("reorder_and_upcast_attn", false);
  json.ignore({"n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
               "summary_first_dropout"});
}

void write(const ModelConfig& model, nlohmann::json& json) {
  json["n_layer"] = model.layers;
  json["n_embd"] = model.hidden;
  json["n_head"] = model.heads;
  json["n_positions"] = model.positions;
  json["n_inner"] = model.intermediate;
  json["layer_norm_epsilon"] = model.norm_epsilon;
  json["embd_pdrop"] = model.embedding_dropout;
  json["resid_pdrop"] = model.residual_dropout;
  json["attn_pdrop"] = model.attention_dropout;
  json["activation_function"] = model.activation == Activation::gelu ? "gelu" : "gelu_new";
}

}  // namespace

const Family kGpt2 = {
    .name = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .norm = NormKind::layer,
    .transposed = true,
    .scaled_residual = true,
    .predicts_ahead = false,
    .output_projection_biased = true,
    .table = "transformer.wte",
    .positions = "transformer.wpe",
    .layers = "transformer.h.",
    .attention_norm = "ln_1",
    .fused = "attn.c_attn",
    .query = nullptr,
    .key = nullptr,
    .value = nullptr,
    .attention_output = "attn.c_proj",
    .feed_forward_norm = "ln_2",
    .up = "mlp.c_fc",
    .gate = nullptr,
    .down = "mlp.c_proj",
    .final_norm = "transformer.ln_f",
    .head = "lm_head",
    .complete = complete,
    .read = read,
    .write = write,
};

}  // namespace espalier::torchrt
