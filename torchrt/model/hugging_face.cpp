#include "torchrt/model/hugging_face.hpp"

#include "planner/core/error.hpp"
#include "torchrt/model/family.hpp"

namespace espalier::torchrt {

namespace {

// Ignores keys for bookkeeping, text generation and other tasks' heads: they do not change
// training.
void ignore_bookkeeping(ConfigJson& json) {
  json.ignore({"_name_or_path",
               "architectures",
               "transformers_version",
               "torch_dtype",
               "dtype",
               "use_cache",
               "sep_token_id",
               "decoder_start_token_id",
               "forced_bos_token_id",
               "forced_eos_token_id",
               "suppress_tokens",
               "begin_suppress_tokens",
               "bad_words_ids",
               "task_specific_params",
               "tokenizer_class",
               "prefix",
               "problem_type",
               "id2label",
               "label2id",
               "num_labels",
               "finetuning_task",
               "return_dict",
               "output_attentions",
               "output_hidden_states",
               "torchscript",
               "use_bfloat16",
               "tf_legacy_loss",
               "chunk_size_feed_forward",
               "is_decoder",
               "tie_encoder_decoder",
               "cross_attention_hidden_size",
               "max_length",
               "min_length",
               "do_sample",
               "early_stopping",
               "num_beams",
               "num_beam_groups",
               "diversity_penalty",
               "temperature",
               "top_k",
               "top_p",
               "typical_p",
               "repetition_penalty",
               "length_penalty",
               "no_repeat_ngram_size",
               "encoder_no_repeat_ngram_size",
               "num_return_sequences",
               "output_scores",
               "return_dict_in_generate",
               "exponential_decay_length_penalty",
               "remove_invalid_values",
               "attn_implementation",
               "_attn_implementation_autoset",
               "gradient_checkpointing"});
  json.only("add_cross_attention", false);
  json.only("is_encoder_decoder", false);
  json.only("pruned_heads", nlohmann::json::object());
  if (json.has("quantization_config"))
    json.fail("quantization_config", "quantized weights cannot be trained; use the model's original weights");
}

constexpr const char* kTokenIds[] = {"bos_token_id", "eos_token_id", "pad_token_id"};

std::string token_ids(ConfigJson& json) {
  json.ignore({kTokenIds[0], kTokenIds[1], kTokenIds[2]});
  nlohmann::json ids = nlohmann::json::object();
  for (const char* key : kTokenIds)
    if (json.has(key)) ids[key] = json.at(key);
  return ids.empty() ? "" : ids.dump();
}

}  // namespace

ModelConfig read_hugging_face_config(const std::string& json_path, int sequence) {
  ConfigJson json(json_path);
  ModelConfig model;
  json.require("model_type", model.family);
  const Family* kind = nullptr;
  std::string known;
  for (const Family* candidate : families()) {
    if (candidate->name == model.family) kind = candidate;
    known += (known.empty() ? "" : ", ") + std::string(candidate->name);
  }
  if (kind == nullptr) json.fail("model_type", "\"" + model.family + "\" is not known; use one of " + known);
  ignore_bookkeeping(json);
  json.require("vocab_size", model.vocabulary);
  json.read("initializer_range", model.initializer_range);
  model.tied_embeddings = kind == &kGpt2;  // Hugging Face's default
  json.read("tie_word_embeddings", model.tied_embeddings);
  model.token_ids = token_ids(json);
  kind->read(json, model);
  json.finish();
  model.sequence = sequence;
  try {
    return completed(model);
  } catch (const Error& error) {
    throw Error(json_path + ": " + error.what());
  }
}

nlohmann::json hugging_face_config(const ModelConfig& model, const std::string& dtype) {
  const Family& kind = family(model.family);
  nlohmann::json json = {{"model_type", kind.name},
                         {"architectures", {kind.architecture}},
                         {"torch_dtype", dtype},
                         {"vocab_size", model.vocabulary},
                         {"initializer_range", model.initializer_range},
                         {"tie_word_embeddings", model.tied_embeddings}};
  if (!model.token_ids.empty()) json.update(nlohmann::json::parse(model.token_ids));
  kind.write(model, json);
  return json;
}

}  // namespace espalier::torchrt
