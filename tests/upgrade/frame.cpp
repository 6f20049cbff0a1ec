// Frames of the "next version" (upgrade.mk): every message, and every object in it that has a fixed set of fields, has
// a field that this version does not know.
#include "planner/wire/frame.hpp"

#include <algorithm>
#include <array>

namespace espalier::wire {
std::string encode_text_of_this_version(const std::string& type, std::string_view body);
}

#define encode encode_of_this_version
#define encode_text encode_text_of_this_version
#include "planner/wire/frame.cpp"
#undef encode
#undef encode_text

namespace espalier::wire {
namespace {

// Objects by the name of the field that holds them. Others may be maps, whose keys are names of nodes or phases.
constexpr std::array<std::string_view, 14> kWithFields{"gpu_faults", "job",      "decision",   "plan",    "source",
                                                       "model",      "setting",  "parallel",   "profile", "stages",
                                                       "replicas",   "holdings", "candidates", "acquire"};

void add_fields(Json& value, bool here) {
  if (value.is_array())
    for (Json& one : value) add_fields(one, here);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items())
    add_fields(inner, std::find(kWithFields.begin(), kWithFields.end(), key) != kWithFields.end());
  if (here) value["of_the_next_version"] = {{"colour", "red"}, {"numbers", {1, 2, 3}}};
}

}  // namespace

std::string encode(const Frame& frame) {
  Json body = frame.body;
  add_fields(body, true);
  return encode_of_this_version({frame.type, std::move(body)});
}

std::string encode_text(const std::string& type, std::string_view body) { return encode({type, Json::parse(body)}); }

}  // namespace espalier::wire
