// Sizes from a model's shape, compared with the published models' sizes.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/model/model_sizes.hpp"
#include "planner/core/solver/layer_balance.hpp"

using namespace espalier;

namespace {

const ModelShape kGpt2Xl{"gpt2", 48, 1600, 25, 1024, 50257, 16, 1};
const ModelShape kLlama7b{"llama", 32, 4096, 32, 2048, 32000, 8, 1};
const ModelShape kQwen7b{"qwen2", 28, 3584, 28, 2048, 152064, 8, 1};

}  // namespace

TEST_CASE("parameters come to what the models are known to have") {
  // 12 * 1600^2 + 13 * 1600 = 30,740,800 a layer; (50257 + 1024) * 1600 in front, 2 * 1600 for the last norm.
  CHECK(layer_parameters(kGpt2Xl) == 30740800);
  CHECK(total_parameters(kGpt2Xl, true) == 1557611200);
  // 4 * 4096^2 + 3 * 4096 * 11008 + 2 * 4096 = 202,383,360; 2 * 32000 * 4096 + 4096 at the ends.
  CHECK(layer_parameters(kLlama7b) == 202383360);
  CHECK(total_parameters(kLlama7b, false) == 6738415616);
  CHECK(total_parameters({"llama", 40, 5120, 40, 2048, 32000, 8, 1}, false) == 13015864320);
  CHECK(total_parameters({"llama", 60, 6656, 52, 2048, 32000, 8, 1}, false) == doctest::Approx(32.5e9).epsilon(0.002));
  CHECK(total_parameters(kQwen7b, false) == doctest::Approx(7.616e9).epsilon(0.02));
  CHECK(total_parameters({"qwen2", 24, 896, 14, 2048, 151936, 8, 1}, true) == doctest::Approx(0.494e9).epsilon(0.02));
}

TEST_CASE("FP32 with Adam takes 4, 4 and 8 bytes a parameter; an activation is a layer's output") {
  const JobCoefficients job = model_sizes(kGpt2Xl, {}, 2);
  CHECK(job.layers == 48);
  CHECK(job.global_batch == 16);
  CHECK(job.gpu.size() == 2);
  CHECK(job.gpu[0].assumed_comp);
  CHECK(job.param_bytes == 4 * 30740800.0);
  CHECK(job.weight_bytes == 4 * 30740800.0);
  CHECK(job.param_optim_bytes == 12 * 30740800.0);
  CHECK(job.activ_bytes == 4.0 * 1024 * 1600);
  CHECK(job.first.param_bytes == 4.0 * (50257 + 1024) * 1600);
  CHECK(job.last.param_bytes == 4.0 * (50257 + 2) * 1600);
  CHECK(job.last.activation_bytes == 4.0 * 1024 * 50257);
  CHECK(job.tied_bytes == 0);
  CHECK(job.boundary_assumed);
  CHECK(job.memory_assumed);
  const JobCoefficients mixed = model_sizes(kLlama7b, {{2, 2, 12, 2}, true, true, true}, 1);
  CHECK(mixed.param_bytes == 2 * 202383360.0);
  CHECK(mixed.param_optim_bytes == 14 * 202383360.0);
  CHECK(mixed.tied_bytes == 16.0 * 32000 * 4096);
  CHECK(mixed.recompute);
  CHECK(mixed.zero1);
}

TEST_CASE("a job's accuracy and precision say what a gradient takes") {
  ModelShape shape = kLlama7b;
  const auto layer = [&](bool bitwise) { return model_sizes(shape, training_of(shape, bitwise), 1); };
  const double elements = 202383360.0;
  CHECK(layer(false).param_bytes == 4 * elements);
  CHECK(layer(true).param_bytes == 8 * elements);
  CHECK(layer(true).integer_sums);
  CHECK(layer(true).param_optim_bytes == 12 * elements);
  shape.setting = TrainingSetting{"espalier-train 0.1.0", "torch", "bfloat16", "1f1b", false, false};
  CHECK(layer(false).param_bytes == 4 * elements);
  CHECK(layer(false).param_optim_bytes == 14 * elements);
  CHECK(layer(true).param_bytes == 8 * elements);
  CHECK(layer(true).weight_bytes == 2 * elements);
  // espalier-train keeps a tied table twice, and sums unit by unit.
  shape.tied = true;
  CHECK(layer(true).tied_bytes == 0);
  CHECK(layer(true).sums_by_unit);
  shape.setting->program = "train.py";
  CHECK_FALSE(layer(true).sums_by_unit);
  shape.family = "data";
  CHECK_FALSE(layer(true).integer_sums);
}

TEST_CASE("an MTP module is a layer, and what it costs beyond one stands where the head is") {
  ModelShape ahead = kLlama7b;
  ahead.layers = 33, ahead.mtp_layers = 1;
  const JobCoefficients without = model_sizes(kLlama7b, {}, 1), with = model_sizes(ahead, {}, 1);
  // Beside a layer: the projection of 2 h to h, its two norms, and one before the head.
  const double hidden = 4096, sequence = 2048, own = 2 * hidden * hidden + 3 * hidden;
  CHECK(total_parameters(ahead, false) == total_parameters(kLlama7b, false) + layer_parameters(kLlama7b) + own);
  CHECK(with.layers == 33);
  CHECK(with.param_bytes == without.param_bytes);
  CHECK(with.last.param_bytes == without.last.param_bytes + 4 * own);
  CHECK(with.last.param_optim_bytes == without.last.param_optim_bytes + 12 * own);
  // The head again, and 2 FLOPs for each of the projection's elements and tokens.
  const double projection = 2 * sequence * 2 * hidden * hidden / layer_flops(kLlama7b);
  CHECK(with.last.compute_layers == doctest::Approx(2 * without.last.compute_layers + projection));
  CHECK(with.last.activation_bytes > 2 * without.last.activation_bytes);
  CHECK(with.first == without.first);
  CHECK(with.boundary_tensors == 2 * without.boundary_tensors);
  const JobCoefficients deep = [&] {
    ahead.layers = 34, ahead.mtp_layers = 2;
    return model_sizes(ahead, {}, 1);
  }();
  CHECK(deep.last.param_bytes == without.last.param_bytes + 8 * own);
  CHECK(deep.boundary_tensors == 2);
}

TEST_CASE("stages are balanced with the MTP modules' cost where the head is") {
  ModelShape ahead = kQwen7b;
  ahead.layers = 29, ahead.mtp_layers = 1;
  const auto balanced = [](const JobCoefficients& job) {
    const LayerBin front{1, job.first.compute_layers, 99, 1}, back{1, job.last.compute_layers, 99, 1};
    std::vector<int> layers(2);
    REQUIRE(balance_layers(std::vector{front, back}, job.layers, layers));
    return layers;
  };
  const std::vector<int> without = balanced(model_sizes(kQwen7b, {}, 1)), with = balanced(model_sizes(ahead, {}, 1));
  CHECK(without[0] + without[1] == 28);
  CHECK(with[0] + with[1] == 29);  // the module is one of the last stage's
  CHECK(with[1] < without[1]);
}

TEST_CASE("activations follow Korthikanti et al. for GPT-2, the part that TP does not divide the family's constant") {
  // 34 s h + 5 a s^2 bytes a sample in half precision (eq. 1), of which 10 s h are not divided (eq. 2).
  const JobCoefficients job = model_sizes(kGpt2Xl, {{2, 2, 12, 2}, false, false, false}, 1);
  CHECK(job.activ_np_bytes == 10.0 * 1024 * 1600);
  CHECK(job.activ_np_bytes + job.activ_p_bytes == doctest::Approx(34.0 * 1024 * 1600 + 5.0 * 25 * 1024 * 1024));
  CHECK(nonpartitioned_activations("llama") == 7);
  CHECK(nonpartitioned_activations("qwen2") == 5);
}

TEST_CASE("fused attention keeps no scores: activations grow as the sequence does, not as its square") {
  ModelShape shape{"llama", 2, 128, 8, 4096, 256, 8, 1};
  const auto layer = [&](const ElementBytes& bytes) {
    const JobCoefficients job = model_sizes(shape, {bytes}, 1);
    return job.activ_p_bytes + job.activ_np_bytes;
  };
  // espalier-train measured 44.2 MB a layer. 4 + 4 * 512 / 128 = 20 outputs that TP divides, and 7 others.
  const double output = 4.0 * 4096 * 128;
  CHECK(layer({}) == 27 * output);
  shape.sequence *= 2;
  CHECK(layer({}) == 2 * 27 * output);
  shape.family = "qwen2", shape.intermediate = 512;
  CHECK(layer({}) == 2 * 25 * output);
  shape = {"gpt2", 2, 128, 8, 4096, 256, 8, 1};
  shape.keeps_scores = false;
  CHECK(layer({}) == 17 * output);
}

TEST_CASE("dropout of the attention's scores keeps 12 bytes of each in FP32 and 8 in BF16; GPT-2 may have it") {
  ModelShape shape = kLlama7b;
  const auto layer = [&](const ElementBytes& bytes) { return model_sizes(shape, {bytes}, 1).activ_p_bytes; };
  const ElementBytes fp32, bf16{2, 4, 12, 2};
  const double scores = 32.0 * 2048 * 2048, single = layer(fp32), mixed = layer(bf16);
  shape.keeps_scores = false;
  CHECK(layer(fp32) == single);
  shape.keeps_scores = true;
  CHECK(layer(fp32) - single == doctest::Approx(12 * scores));
  CHECK(layer(bf16) - mixed == doctest::Approx(8 * scores));
  shape = kGpt2Xl;
  const double not_told = layer(fp32);
  shape.keeps_scores = false;
  CHECK(not_told - layer(fp32) == doctest::Approx(10 * 25.0 * 1024 * 1024));
}

TEST_CASE("what a program tells of its attention's scores reaches the planner") {
  ModelShape shape = kGpt2Xl;
  CHECK_FALSE(Json(shape).contains("keeps_scores"));
  for (const std::optional<bool> told : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    shape.keeps_scores = told;
    CHECK(Json(shape).get<ModelShape>() == shape);
  }
}

TEST_CASE("TP degrees are the powers of two that divide the heads") {
  CHECK(model_sizes(kGpt2Xl, {}, 1).tp_degrees == std::vector<int>{1});
  CHECK(model_sizes(kLlama7b, {}, 1).tp_degrees == std::vector<int>{1, 2, 4, 8, 16, 32});
  CHECK(model_sizes(kQwen7b, {}, 1).tp_degrees == std::vector<int>{1, 2, 4});
}

TEST_CASE("TP degrees divide the key and value heads and the feed-forward too, where they are told") {
  ModelShape shape = kLlama7b;
  shape.key_value_heads = 8;
  CHECK(model_sizes(shape, {}, 1).tp_degrees == std::vector<int>{1, 2, 4, 8});
  shape.intermediate = 11004;
  CHECK(model_sizes(shape, {}, 1).tp_degrees == std::vector<int>{1, 2, 4});
}

TEST_CASE("the LM head counts as the layers whose FLOPs it takes") {
  // 2 h V against 2 * 12 h^2 + 4 s h: 50257 / (12 * 1600 + 2 * 1024).
  CHECK(head_layers(kGpt2Xl) == doctest::Approx(50257.0 / (12 * 1600 + 2 * 1024)));
  CHECK(layer_flops(kGpt2Xl) == doctest::Approx(1024 * (24.0 * 1600 * 1600 + 4.0 * 1024 * 1600)));
}

TEST_CASE("an unknown family and a shape without sizes are refused") {
  CHECK_THROWS_WITH_AS(model_sizes({"bert", 12, 768, 12, 512, 30522, 8, 1}, {}, 1),
                       "model family \"bert\": unknown; use one of gpt2, llama, qwen2", Error);
  CHECK_THROWS_WITH_AS(model_sizes({"gpt2", 0, 768, 12, 512, 30522, 8, 1}, {}, 1),
                       "model shape: layers, hidden and sequence must be at least 1", Error);
}
