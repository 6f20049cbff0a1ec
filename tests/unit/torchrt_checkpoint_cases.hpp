// Checkpoints of made-up state in any layout, for tests. A loop plays the ranks.
#pragma once

#include "tests/unit/torchrt_safetensors_cases.hpp"
#include "tests/unit/torchrt_tiny_model.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/checkpoint/reader.hpp"
#include "torchrt/checkpoint/write_part.hpp"
#include "torchrt/device/cpu.hpp"
#include "torchrt/random.hpp"

namespace espalier::torchrt {

struct TestLayout {
  std::vector<int> stage_units;  // number of units of each stage
  std::vector<int> replicas, tp;
  bool zero1 = false;
  DataType dtype = DataType::float32;
};

// One rank's units with their memory.
struct TestRank {
  RankLayout layout;
  std::vector<UnitSpec> specs;
  std::vector<StateLayout> states;
  std::vector<std::unique_ptr<Allocation>> memory;
  std::vector<UnitState> units() const {
    std::vector<UnitState> result;
    for (std::size_t i = 0; i < specs.size(); ++i) result.push_back({&specs[i], states[i], memory[i]->data()});
    return result;
  }
};

inline std::vector<TestRank> make_ranks(const ModelConfig& model, const TestLayout& layout, Device& device) {
  std::vector<TestRank> ranks;
  int first_unit = 0;
  for (std::size_t s = 0; s < layout.stage_units.size(); first_unit += layout.stage_units[s++])
    for (int replica = 0; replica < layout.replicas[s]; ++replica)
      for (int t = 0; t < layout.tp[s]; ++t) {
        TestRank& rank = ranks.emplace_back();
        rank.layout.replica = replica;
        rank.layout.replicas = layout.replicas[s];
        rank.layout.tp = layout.tp[s];
        rank.layout.tp_rank = t;
        for (int unit = first_unit; unit < first_unit + layout.stage_units[s]; ++unit) {
          rank.specs.push_back(unit_spec(model, unit, layout.tp[s], t));
          rank.states.push_back(state_layout(rank.specs.back(), layout.dtype, layout.zero1 ? layout.replicas[s] : 1,
                                             layout.zero1 ? replica : 0));
          rank.memory.push_back(device.allocate(rank.states.back().bytes(), "test"));
        }
      }
  return ranks;
}

// An element's value depends only on its logical coordinate.
inline float state_value(const std::string& tensor, StateKind kind, std::int64_t row, std::int64_t column) {
  const std::uint64_t place = mix(hash_name(tensor) + static_cast<std::uint64_t>(kind),
                                  static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(column));
  return static_cast<float>(place >> 40) / 1024.0F;
}

// Values of all of a unit's `floats`.
inline std::vector<float> state_values(const UnitSpec& spec, StateKind kind) {
  std::vector<float> values(spec.floats, 0.0F);
  for (const TensorSpec& tensor : spec.tensors) {
    float* next = values.data() + tensor.offset;
    for (const Range& rows : tensor.rows)
      for (std::int64_t row = rows.first; row < rows.end(); ++row)
        for (std::int64_t column = tensor.columns.first; column < tensor.columns.end(); ++column)
          *next++ = state_value(tensor.hugging_face, kind, row, column);
  }
  return values;
}

// The expected bytes of a unit's memory.
inline std::vector<char> expected_memory(const UnitSpec& spec, const StateLayout& state) {
  std::vector<char> memory(state.bytes(), 0);
  const auto put = [&](std::size_t offset, const float* values) {
    std::memcpy(memory.data() + offset, values + state.shard.first, state.shard_bytes());
  };
  const std::vector<float> parameters = state_values(spec, StateKind::parameter);
  if (state.has_master()) {
    for (std::size_t i = 0; i < spec.floats; ++i) {
      const std::uint16_t rounded = float_to_bf16(parameters[i]);
      std::memcpy(memory.data() + 2 * i, &rounded, sizeof rounded);
    }
    put(state.master_offset(), parameters.data());
  } else {
    std::memcpy(memory.data(), parameters.data(), state.parameter_bytes());
  }
  put(state.first_moment_offset(), state_values(spec, StateKind::first_moment).data());
  put(state.second_moment_offset(), state_values(spec, StateKind::second_moment).data());
  return memory;
}

inline Config checkpoint_config(const std::string& directory, const ModelConfig& model) {
  Config config;
  config.path = "test.toml";
  config.model = model;
  config.training.steps = 100;
  config.training.global_batch = 8;
  config.checkpoint.directory = directory;
  config.checkpoint.every = 10;
  return config;
}

inline std::vector<TestRank> filled_ranks(const ModelConfig& model, const TestLayout& layout, Device& device) {
  std::vector<TestRank> ranks = make_ranks(model, layout, device);
  for (TestRank& rank : ranks)
    for (std::size_t i = 0; i < rank.specs.size(); ++i) {
      const std::vector<char> memory = expected_memory(rank.specs[i], rank.states[i]);
      std::memcpy(rank.memory[i]->data(), memory.data(), memory.size());
    }
  return ranks;
}

// Writes the checkpoint of `step` as the ranks of a training do.
inline void write_checkpoint(const Config& config, const TestLayout& layout, std::int64_t step,
                             const nlohmann::json& data = nlohmann::json::object()) {
  const std::unique_ptr<Device> device = make_cpu_device();
  const std::vector<TestRank> ranks = filled_ranks(config.model, layout, *device);
  const std::string unfinished = unfinished_folder(config.checkpoint.directory, step, 0);
  WriteProgress progress;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Snapshot snapshot;
    take_snapshot(ranks[r].units(), ranks[r].layout, *device, snapshot);
    write_part(unfinished, static_cast<int>(r), snapshot, progress);
  }
  Manifest manifest;
  manifest.step = step;
  manifest.samples = static_cast<std::uint64_t>(step) * 8;
  manifest.facts = checkpoint_facts(config);
  manifest.facts.update(data);
  commit_checkpoint(unfinished, checkpoint_folder(config.checkpoint.directory, step), static_cast<int>(ranks.size()),
                    manifest, progress);
}

// How many files and folders it holds.
inline std::size_t entries(const std::string& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace espalier::torchrt
