// A checkpoint's manifest. It holds a checksum of itself, which keeps damage out but not a hostile hand: the input gets
// the right one, so that the fuzzer passes it.
#include <nlohmann/json.hpp>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "tests/fuzz/targets.hpp"
#include "torchrt/checkpoint/manifest.hpp"
#include "torchrt/checksum.hpp"

namespace espalier::fuzz {
namespace {

std::string with_checksum(std::string_view input) {
  nlohmann::json json = try_json(input);
  if (!json.is_object()) return std::string(input);
  json.erase("checksum");
  try {
    const std::string text = json.dump();
    char sum[17];
    std::snprintf(sum, sizeof sum, "%016llx",
                  static_cast<unsigned long long>(torchrt::checksum(text.data(), text.size())));
    json["checksum"] = sum;
    return json.dump();
  } catch (const nlohmann::json::exception&) {  // no UTF-8
    return std::string(input);
  }
}

void read(const std::string& text) {
  try {
    torchrt::Manifest manifest = torchrt::manifest_from(text, "fuzz");
    require(torchrt::manifest_from(torchrt::to_text(manifest), "fuzz") == manifest);
    const torchrt::Manifest same = manifest;
    torchrt::merge(manifest, same);
    torchrt::check_complete(same, "fuzz");
  } catch (const Error&) {
  }
}

}  // namespace

void manifest(std::string_view input) {
  read(std::string(input));
  read(with_checksum(input));
}

}  // namespace espalier::fuzz
