#include "torchrt/model/family.hpp"

#include <array>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 3> kFamilies{&kGpt2, &kLlama, &kQwen2};
  return kFamilies;
}

const Family& family(const std::string& name) {
  std::string known;
  for (const Family* candidate : families()) {
    if (candidate->name == name) return *candidate;
    known += (known.empty() ? "" : ", ") + std::string(candidate->name);
  }
  throw Error("model: family \"" + name + "\" is not known; use one of " + known);
}

}  // namespace espalier::torchrt
