// Hugging Face's config.json, as the training and as `espalier plan` read it.
#include "planner/cli/hugging_face_config.hpp"
#include "planner/core/error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/model/hugging_face.hpp"

namespace espalier::fuzz {

void config_json(std::string_view input) {
  const MemoryFile file(input);
  try {
    const torchrt::ModelConfig model = torchrt::read_hugging_face_config(file.path(), 128);
    require(model.layers > 0 && model.hidden > 0 && model.heads > 0 && model.hidden % model.heads == 0);
    // What is written again is read as the same.
    const MemoryFile again(torchrt::hugging_face_config(model).dump());
    require(torchrt::read_hugging_face_config(again.path(), 128) == model);
  } catch (const Error&) {
  }
  try {
    const cli::HuggingFaceModel model = cli::read_hugging_face_config(file.path());
    require(model.shape.layers > 0 && (model.shape.family == "gpt2" || model.shape.intermediate > 0));
  } catch (const Error&) {
  }
}

}  // namespace espalier::fuzz
