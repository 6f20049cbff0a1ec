#include "planner/core/topology/gpu_specs.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <vector>

namespace espalier {
namespace {

struct Sheet {
  std::string_view model;
  // BF16 on tensor cores, dense (half of the figure printed "with sparsity"); FP16 before Ampere.
  double tflops;
  double memory_gb;  // the smallest size if there are several
  double memory_gb_s;
  double link_gb_s;  // per direction: half of the printed total
};

// From the vendors' data sheets. The SXM (OAM) form if there is one.
constexpr std::array kSheets{
    Sheet{"v100", 125, 16, 900, 150},         // NVIDIA V100
    Sheet{"t4", 65, 16, 300, 0},              // NVIDIA T4
    Sheet{"a10", 125, 24, 600, 0},            // NVIDIA A10
    Sheet{"a30", 165, 24, 933, 0},            // NVIDIA A30; its bridges connect pairs only
    Sheet{"a40", 149.7, 48, 696, 0},          // NVIDIA A40; as A30
    Sheet{"a100", 312, 40, 1555, 300},        // NVIDIA A100
    Sheet{"a800", 312, 80, 2039, 200},        // NVIDIA A800: an A100 with NVLink at 400 GB/s
    Sheet{"l4", 121, 24, 300, 0},             // NVIDIA L4
    Sheet{"l20", 119.5, 48, 864, 0},          // NVIDIA L20
    Sheet{"l40", 181, 48, 864, 0},            // NVIDIA L40
    Sheet{"l40s", 362, 48, 864, 0},           // NVIDIA L40S
    Sheet{"h20", 148, 96, 4000, 450},         // NVIDIA H20
    Sheet{"h100", 989.5, 80, 3350, 450},      // NVIDIA H100
    Sheet{"h800", 989.5, 80, 3350, 200},      // NVIDIA H800: an H100 with NVLink at 400 GB/s
    Sheet{"h200", 989.5, 141, 4800, 450},     // NVIDIA H200
    Sheet{"gh200", 989.5, 96, 4000, 450},     // NVIDIA GH200
    Sheet{"b200", 2250, 180, 7700, 900},      // NVIDIA HGX B200
    Sheet{"gb200", 2500, 186, 8000, 900},     // NVIDIA GB200 NVL72
    Sheet{"mi300x", 1307.4, 192, 5300, 448},  // AMD Instinct MI300X: seven links
};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      list.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!list.back().empty()) list.emplace_back();
  }
  return list;
}

// "80gb" gives 80. Any other word gives 0.
double gigabytes(const std::string& word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && std::string_view(end) == "gb";
  return whole && value > 0 && value < 10000 ? value : 0;
}

// A MIG instance, as Slurm names it: "a100_1g.5gb". It is no whole GPU, and nothing links it to others.
bool is_part(const std::string& word) {
  return word.size() >= 2 && word.size() <= 3 && word.back() == 'g' &&
         std::all_of(word.begin(), word.end() - 1, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::optional<GpuSpec> known_gpu(const std::string& gres_type) {
  constexpr double kGigabyte = 1e9, kGigabytePerSecond = 1e6;  // bytes, bytes/ms
  const Sheet* sheet = nullptr;
  double written_gb = 0;
  for (const std::string& word : words(gres_type)) {
    const auto found = std::find_if(kSheets.begin(), kSheets.end(), [&](const Sheet& s) { return s.model == word; });
    if (is_part(word)) return std::nullopt;
    if (found != kSheets.end()) sheet = &*found;
    written_gb = std::max(written_gb, gigabytes(word));
  }
  if (sheet == nullptr) return std::nullopt;
  // No model is made with more than twice its smallest memory. In "nvidia_gh200_480gb" it is the CPU that has 480 GB.
  const bool its_own = written_gb > 0 && written_gb <= 2 * sheet->memory_gb;
  GpuSpec spec;
  spec.type.name = gres_type;
  spec.type.tflops = sheet->tflops;
  spec.type.memory_bytes = (its_own ? written_gb : sheet->memory_gb) * kGigabyte;
  spec.type.memory_bandwidth = sheet->memory_gb_s * kGigabytePerSecond;
  spec.link = sheet->link_gb_s * kGigabytePerSecond;
  return spec;
}

}  // namespace espalier
