#include "torchrt/model_flops.hpp"

#include <array>
#include <cctype>

#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

namespace {

struct Card {
  const char* name;          // part of the driver's name; the first that fits counts
  double bfloat16, float32;  // teraflops
};

constexpr std::array kCards = {
    Card{"B200", 2250, 75},       Card{"H200", 989.4, 66.9},     Card{"GH200", 989.4, 66.9},
    Card{"H100 PCIe", 756, 51.2}, Card{"H100 NVL", 835.5, 60},   Card{"H100", 989.4, 66.9},
    Card{"A100", 312, 19.5},      Card{"A40", 149.7, 37.4},      Card{"A30", 165, 10.3},
    Card{"A10", 125, 31.2},       Card{"L40S", 362, 91.6},       Card{"L40", 181, 90.5},
    Card{"L4", 121, 30.3},        Card{"RTX 4090", 165.2, 82.6}, Card{"RTX 3090", 71, 35.6},
};

// Whole words: "A40" is not the "A4000".
bool mentions(const std::string& text, const std::string& name) {
  const auto part_of_word = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  const std::size_t at = text.find(name);
  return at != std::string::npos && (at == 0 || !part_of_word(at - 1)) && !part_of_word(at + name.size());
}

}  // namespace

double model_flops_per_token(const ModelConfig& model) {
  double weights = 0;
  for (int unit = 1; unit < unit_count(model); ++unit) {
    const double times = unit_part(model, unit) == UnitPart::head ? 1 + model.mtp_layers : 1;
    for (const TensorSpec& tensor : unit_spec(model, unit).tensors)
      if (tensor.global_shape.size() == 2) weights += times * static_cast<double>(tensor.elements());
  }
  const double attention = 12.0 * model.blocks() * model.heads * model.head_size * model.sequence;
  return 6 * weights + attention;
}

UnitFlops unit_flops(const ModelConfig& model, int unit, int tp) {
  constexpr double kAdamW = 16;
  UnitFlops flops;
  double multiplied = 0;
  for (const TensorSpec& tensor : unit_spec(model, unit, tp).tensors) {
    const auto elements = static_cast<double>(tensor.elements());
    flops.update += kAdamW * elements;
    if (unit > 0 && tensor.global_shape.size() == 2) multiplied += elements;
  }
  const UnitPart part = unit_part(model, unit);
  // Every MTP depth goes through the head's matrix again. Depths are a few tokens shorter, which is not counted.
  if (part == UnitPart::head) multiplied *= 1 + model.mtp_layers;
  const bool block = part == UnitPart::block || part == UnitPart::mtp;
  const double attention = block ? 4.0 * model.heads / tp * model.head_size * model.sequence : 0;
  flops.forward = 2 * multiplied + attention;
  flops.backward = 2 * multiplied + 2 * attention;
  flops.weight_gradient = 2 * multiplied;
  return flops;
}

double peak_flops(const std::string& card, DataType type) {
  for (const Card& known : kCards)
    if (mentions(card, known.name)) return 1e12 * (type == DataType::bfloat16 ? known.bfloat16 : known.float32);
  return 0;
}

}  // namespace espalier::torchrt
