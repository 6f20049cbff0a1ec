// One rank of a pipeline that computes a small model's units by itself, for tests of what its tensors hold.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/torchrt_plans.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/model/compute.hpp"

namespace espalier::torchrt {

struct SmallPipeline {
  Accuracy accuracy = Accuracy::bitwise;
  int stages = 1, micro_batches = 1, samples = 1;  // samples: of a micro-batch
  bool tied = false;                               // embeddings
};

// Stage s is rank s, and has chunk s.
class SmallRank {
 public:
  // After prepare_torch(). All parameters are zero.
  SmallRank(const SmallPipeline& pipeline, int rank)
      : config_(config_of(pipeline)), device_(make_cpu_device()), layout_(layout_of(pipeline)) {
    const bool bitwise = pipeline.accuracy == Accuracy::bitwise;
    units_ = layout_.ranks.at(static_cast<std::size_t>(rank)).units;
    for (const int unit : units_) specs_.push_back(unit_spec(config_.model, unit));
    std::vector<UnitView> views;
    for (const UnitSpec& spec : specs_) {
      const StateLayout state = state_layout(spec, config_.training.dtype, 1, 0);
      memory_.push_back(device_->allocate(state.bytes(), "state"));
      memory_.push_back(device_->allocate(gradient_bytes(spec.floats, bitwise), "gradient"));
      views.push_back({&spec, state, memory_.rbegin()[1]->data(), memory_.back()->data()});
    }
    compute_ = std::make_unique<Compute>(config_, layout_, rank, *device_, nullptr, std::move(views));
    const std::vector<std::int64_t> tokens(static_cast<std::size_t>(pipeline.samples * config_.model.sequence), 1);
    batch_ = {tokens, tokens};
  }

  const Config& config() const { return config_; }
  const std::vector<int>& units() const { return units_; }
  const Batch& batch() const { return batch_; }
  Compute& compute() { return *compute_; }
  // The bytes of all tensors.
  std::size_t held() {
    compute_->reset_peak();  // the peak is what is held, until something is allocated
    return compute_->peak_tensor_bytes();
  }

 private:
  static constexpr int kLayers = 2;

  static Config config_of(const SmallPipeline& pipeline) {
    Config config;
    config.model.family = "gpt2";
    config.model.layers = kLayers;
    config.model.hidden = 64;
    config.model.heads = 4;
    config.model.sequence = 16;
    config.model.tied_embeddings = pipeline.tied;
    config.model = completed(config.model);
    config.training.accuracy = pipeline.accuracy;
    config.training.steps = 10;
    config.training.global_batch = pipeline.micro_batches * pipeline.samples;
    return config;
  }
  static Layout layout_of(const SmallPipeline& pipeline) {
    std::vector<std::pair<std::string, int>> gpus;
    for (int stage = 0; stage < pipeline.stages; ++stage) gpus.emplace_back("a", stage);
    return make_layout(pipeline_of(gpus, kLayers, pipeline.micro_batches, pipeline.samples), kLayers);
  }

  const Config config_;
  const std::unique_ptr<Device> device_;
  const Layout layout_;
  std::vector<int> units_;
  std::vector<UnitSpec> specs_;  // views point to them
  std::vector<std::unique_ptr<Allocation>> memory_;
  std::unique_ptr<Compute> compute_;
  Batch batch_;
};

}  // namespace espalier::torchrt
