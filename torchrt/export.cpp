#include "torchrt/export.hpp"

#include <cstdio>
#include <filesystem>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/model/hugging_face.hpp"
#include "torchrt/safetensors/hugging_face_files.hpp"
#include "torchrt/write_file.hpp"

namespace espalier::torchrt {

namespace {

std::unique_ptr<CheckpointReader> newest_good(Config config) {
  if (config.checkpoint.directory.empty())
    throw Error("export: there is no checkpoint.directory; name a checkpoint with --from");
  config.checkpoint.resume = true;
  const RankSum alone{0, 1, [](double value) { return value; }};
  Resumption found = find_resumption(config, alone, [](const std::string& problem) {
    std::fprintf(stderr, "espalier: train: %s\n", problem.c_str());
  });
  if (!found.checkpoint)
    throw Error("export: checkpoint directory " + config.checkpoint.directory + ": holds no checkpoint");
  return std::move(found.checkpoint);
}

std::unique_ptr<CheckpointReader> named(const Config& config, const std::string& folder) {
  auto checkpoint = std::make_unique<CheckpointReader>(folder);
  check_model(checkpoint->manifest().facts, config, "checkpoint " + folder);
  checkpoint->verify(0, 1);
  return checkpoint;
}

}  // namespace

void export_model(const Config& config, const std::string& from, const std::string& folder) {
  const std::unique_ptr<CheckpointReader> checkpoint = from.empty() ? newest_good(config) : named(config, from);
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw Error("export: " + folder + ": cannot be made: " + problem.message());
  std::vector<UnitSpec> units;
  for (int unit = 0; unit < unit_count(config.model); ++unit) units.push_back(unit_spec(config.model, unit));
  const bool half = config.training.dtype == DataType::bfloat16;
  write_hugging_face_files(folder, units, half ? ElementType::bf16 : ElementType::f32, [&](const UnitSpec& unit) {
    std::vector<float> values(unit.floats, 0.0F);
    checkpoint->read(unit, StateKind::parameter, {0, static_cast<std::int64_t>(unit.floats)}, values);
    return values;
  });
  const auto json = hugging_face_config(config.model, half ? "bfloat16" : "float32");
  write_whole_file(folder + "/config.json", json.dump(2) + "\n");
  std::printf("%s: the parameters after step %lld, of %s\n", folder.c_str(),
              static_cast<long long>(checkpoint->manifest().step), checkpoint->folder().c_str());
}

}  // namespace espalier::torchrt
