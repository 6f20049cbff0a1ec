#include "planner/cli/plan_job_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "planner/cli/hugging_face_config.hpp"
#include "planner/core/error.hpp"
#include "planner/core/model/own_lists.hpp"
#include "planner/core/model/published_models.hpp"
#include "planner/core/open_input.hpp"
#include "planner/core/pipeline/generate.hpp"
#include "planner/core/pipeline_form.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/toml_keys.hpp"

namespace espalier::cli {
namespace {

constexpr const char* kManual = "espalier-plan(1)";
constexpr const char* kShapeKeys[] = {"layers", "hidden", "heads", "sequence", "vocabulary"};

// Relative to the BF16 peak. FP32 runs on TF32 units, which have half of that peak.
double usual_utilization(const std::string& precision) { return precision == "fp32" ? 0.2 : 0.4; }

class JobFile {
 public:
  explicit JobFile(const std::string& path) : path_(path), root_(wire::parse_toml_file(path)) { job_.path = path; }

  PlanJob read() {
    wire::read_toml_table(path_, "", root_, keys(), kManual);
    model();
    training();
    measured();
    return std::move(job_);
  }

 private:
  bool has(const std::string& key) const { return root_.as_table().count(key) > 0; }
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    if (!has(key)) throw Error(path_ + ": " + key + ": " + problem);
    wire::fail_toml(path_, root_.as_table().at(key), key, problem);
  }

  wire::TomlKeys keys() {
    using namespace wire;
    const auto whole = [&](const char* key, int& out, long low, long high) {
      return std::pair(std::string(key), toml_whole(path_, key, out, low, high));
    };
    TomlKeys known{
        whole("layers", given_.layers, 1, 10'000),
        whole("mtp_layers", given_.mtp_layers, 0, 64),
        whole("hidden", given_.hidden, 1, 1 << 20),
        whole("heads", given_.heads, 1, 1 << 16),
        whole("key_value_heads", given_.key_value_heads, 1, 1 << 16),
        whole("intermediate", given_.intermediate, 1, 1 << 24),
        whole("sequence", given_.sequence, 1, 1 << 24),
        whole("vocabulary", given_.vocabulary, 1, 1 << 24),
        whole("global_batch", given_.global_batch, 1, 1 << 20),
        whole("micro_batches", given_.micro_batches, 0, 1 << 20),
        whole("chunks", job_.chunks, 1, 64),
        whole("min_gpus", job_.min_gpus, 1, 1 << 20),
        whole("max_gpus", job_.max_gpus, 1, 1 << 20),
    };
    known["model"] = toml_text(path_, "model", job_.model, false);
    known["config"] = toml_text(path_, "config", config_, false);
    known["family"] = toml_one_of(path_, "family", given_.family, {"gpt2", "llama", "qwen2"});
    known["accuracy"] = toml_one_of(path_, "accuracy", accuracy_, {"bitwise", "relaxed"});
    known["precision"] = toml_one_of(path_, "precision", job_.precision, {"fp32", "bf16"});
    known["schedule"] = toml_text(path_, "schedule", job_.schedule, false);
    known["lists"] = toml_text(path_, "lists", lists_, false);
    known["tied"] = toml_truth(path_, "tied", tied_);
    known["recompute"] = toml_truth(path_, "recompute", job_.training.recompute);
    known["zero1"] = toml_truth(path_, "zero1", job_.training.zero1);
    known["gpu_types"] = toml_texts(path_, "gpu_types", job_.gpu_types);
    known["utilization"] = toml_real(path_, "utilization", job_.utilization, 0.001, 1);
    known["step_seconds"] = toml_real(path_, "step_seconds", job_.step_seconds, 1e-6, 1e6);
    known["present"] = [this](const toml::value& value) { present(value); };
    return known;
  }

  void present(const toml::value& value) {
    PresentDegrees& degrees = job_.present.emplace();
    const auto degree = [&](const char* key, int& out) {
      return std::pair(std::string(key), wire::toml_whole(path_, std::string("present.") + key, out, 1, 1 << 20));
    };
    wire::read_toml_table(path_, "present", value,
                          {degree("pp", degrees.pp), degree("dp", degrees.dp), degree("tp", degrees.tp),
                           degree("micro_batches", degrees.micro_batches)},
                          kManual);
    if (static_cast<double>(degrees.pp) * degrees.dp * degrees.tp > 1 << 20)
      fail("present", "more than " + std::to_string(1 << 20) + " GPUs");
  }

  // The model is given in one of three ways.
  void model() {
    if (has("model") + has("config") + has("family") != 1)
      throw Error(path_ +
                  ": give one of model (a published model's name), config (the path of a config.json) and "
                  "family (with layers, hidden, heads, sequence and vocabulary)");
    ModelShape& shape = job_.shape;
    if (has("model")) {
      try {
        shape = published_model(job_.model);
      } catch (const Error& error) {
        fail("model", std::string(error.what()) +
                          "; or name the model's config.json with config, or give family, layers, hidden, heads, "
                          "sequence and vocabulary, and key_value_heads and intermediate where it has its own");
      }
    } else if (has("config")) {
      const auto found = std::filesystem::path(path_).parent_path() / config_;
      const HuggingFaceModel read = read_hugging_face_config(found.string());
      shape = read.shape;
      job_.model = config_;
      job_.training.tied = read.tied;
    } else {
      shape.family = job_.model = given_.family;
      for (const char* key : kShapeKeys)
        if (!has(key)) fail(key, "missing; a family needs layers, hidden, heads, sequence and vocabulary");
    }
    if (!has("family")) {
      for (const char* key : {"layers", "hidden", "heads", "vocabulary", "key_value_heads", "intermediate"})
        if (has(key)) fail(key, "not beside model or config, which have their own");
    }
    const auto take = [](int given, int& out) {
      if (given > 0) out = given;
    };
    take(given_.layers, shape.layers);
    if (has("mtp_layers")) {
      if (!has("family")) fail("mtp_layers", "not beside model or config, which have their own");
      if (shape.family == "gpt2") fail("mtp_layers", "family \"gpt2\" has no multi-token prediction; remove it");
      shape.mtp_layers = given_.mtp_layers;
      shape.layers += shape.mtp_layers;  // plans count the modules as layers
    }
    take(given_.hidden, shape.hidden);
    take(given_.heads, shape.heads);
    take(given_.key_value_heads, shape.key_value_heads);
    take(given_.intermediate, shape.intermediate);
    take(given_.sequence, shape.sequence);
    take(given_.vocabulary, shape.vocabulary);
    if (shape.hidden % shape.heads != 0)
      fail("heads", "does not divide hidden = " + std::to_string(shape.hidden) + "; choose a divisor");
    if (has("key_value_heads") && shape.family == "gpt2")
      fail("key_value_heads", "family \"gpt2\" has as many as heads; remove it");
    if (has("key_value_heads") && shape.heads % shape.key_value_heads != 0)
      fail("key_value_heads", "does not divide heads = " + std::to_string(shape.heads) + "; choose a divisor");
    if (has("tied")) job_.training.tied = tied_;
  }

  void training() {
    if (!has("global_batch")) fail("global_batch", "missing; give the samples of a step");
    job_.shape.global_batch = given_.global_batch;
    job_.shape.micro_batches = given_.micro_batches;
    if (given_.micro_batches > 0 && given_.global_batch % given_.micro_batches != 0)
      fail("micro_batches", "does not divide global_batch = " + std::to_string(given_.global_batch));
    if (job_.min_gpus > job_.max_gpus) fail("min_gpus", "is larger than max_gpus");
    job_.accuracy = accuracy_ == "bitwise" ? Accuracy::bitwise : Accuracy::relaxed;
    job_.training.bytes = element_bytes(job_.precision);
    if (has("lists")) lists();
    try {
      ElasticJob checked;
      set_schedule(checked, job_);
    } catch (const Error& error) {
      fail(has("chunks") && !has("schedule") ? "chunks" : "schedule", error.what());
    }
  }

  void lists() {
    if (has("chunks")) fail("chunks", "not beside lists, which have their own");
    std::ifstream in = open_input((std::filesystem::path(path_).parent_path() / lists_).string());
    if (!in) fail("lists", lists_ + ": cannot be read");
    try {
      job_.lists = read_text(in, kMostOwnLists);
      OwnLists::of(job_.lists);
    } catch (const Error& error) {
      fail("lists", lists_ + ": " + error.what());
    }
    if (job_.lists.empty()) fail("lists", lists_ + ": the file is empty; write one row for each rank");
  }

  // "16 heads", or "16 heads, 2 key and value heads and feed-forward width 11008".
  std::string tp_divides() const {
    const ModelShape& shape = job_.shape;
    std::string text = std::to_string(shape.heads) + " heads";
    if (shape.key_value_heads > 0) text += ", " + std::to_string(shape.key_value_heads) + " key and value heads";
    if (shape.intermediate > 0)
      text += (shape.key_value_heads > 0 ? " and" : ",") + std::string(" feed-forward width ") +
              std::to_string(shape.intermediate);
    return text;
  }

  void measured() {
    if (job_.present.has_value() != has("step_seconds"))
      fail(job_.present ? "present" : "step_seconds",
           job_.present ? "needs step_seconds, what a step of that plan took"
                        : "needs present = { pp =, dp =, tp =, micro_batches = }, the plan that it was measured on");
    if (job_.present && has("utilization"))
      fail("utilization", "not beside step_seconds, which tells it; give one of them");
    if (job_.utilization <= 0) job_.utilization = usual_utilization(job_.precision);
    if (!job_.present) return;
    if (const auto allowed = tp_degrees(job_.shape);
        std::find(allowed.begin(), allowed.end(), job_.present->tp) == allowed.end())
      fail("present", "tp must be a power of two that divides the model's " + tp_divides());
    if (job_.accuracy == Accuracy::bitwise && job_.shape.micro_batches > 0 &&
        job_.shape.micro_batches != job_.present->micro_batches)
      fail("micro_batches", "is not present's, which accuracy = \"bitwise\" keeps");
    if (job_.shape.global_batch % job_.present->micro_batches != 0)
      fail("present", "micro_batches does not divide global_batch = " + std::to_string(job_.shape.global_batch));
  }

  const std::string path_;
  const toml::value root_;
  PlanJob job_;
  ModelShape given_;
  std::string config_, lists_, accuracy_ = "relaxed";
  bool tied_ = false;
};

}  // namespace

void set_schedule(ElasticJob& job, const std::string& schedule, int chunks, const std::string& where) {
  try {
    if (!job.model.setting) job.model.setting.emplace();
    job.model.setting->schedule = schedule;
    if (schedule == kAutomaticSchedule) {
      if (chunks > 0) throw Error("\"auto\" chooses the chunks; remove chunks, or name a schedule");
      return;
    }
    const int needed = pipeline::generator(schedule).chunks_per_rank;
    const PipelineForm form = pipeline_form(schedule, chunks > 0                  ? chunks
                                                      : needed > 0                ? needed
                                                      : schedule == "interleaved" ? 2
                                                                                  : 1);
    job.parallel.chunks = form.chunks > 1 ? form.chunks : 0;
    job.parallel.v_shaped = form.v_shaped();
  } catch (const Error& error) {
    throw Error(where + error.what());
  }
}

void set_schedule(ElasticJob& job, const PlanJob& file) {
  const auto own = OwnLists::of(file.lists);
  if (!own) return set_schedule(job, file.schedule, file.chunks, "");
  const PipelineForm beside = own->form_beside(file.schedule);
  set_schedule(job, beside.schedule(), beside.chunks, "");
  job.parallel.lists = file.lists;
}

// BF16 keeps FP32 master weights in addition to Adam's moments. It sums gradients in BF16.
ElementBytes element_bytes(const std::string& precision) {
  return precision == "fp32" ? ElementBytes{4, 4, 8, 4} : ElementBytes{2, 2, 12, 2};
}

PlanJob read_plan_job(const std::string& path) { return JobFile(path).read(); }

}  // namespace espalier::cli
