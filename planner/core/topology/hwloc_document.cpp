#include "planner/core/topology/hwloc_document.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"

namespace espalier {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

[[noreturn]] void refuse(const std::string& problem) {
  throw Error("hwloc XML: " + problem + "; export it with espalier-report or lstopo");
}

// Reads the attributes of the start tag whose name ends at `at`. Moves `at` behind them.
std::map<std::string_view, std::string_view> read_attributes(std::string_view xml, std::size_t& at) {
  std::map<std::string_view, std::string_view> attributes;
  for (;;) {
    at = std::min(xml.find_first_not_of(kBlanks, at), xml.size());
    if (at == xml.size()) refuse("ends inside an object");
    if (xml[at] == '>' || xml[at] == '/') return attributes;
    const std::size_t equals = xml.find('=', at);
    if (equals == std::string_view::npos || equals + 1 >= xml.size() || xml[equals + 1] != '"')
      refuse("has an attribute without a value in double quotes");
    const std::size_t end = xml.find('"', equals + 2);
    if (end == std::string_view::npos) refuse("ends inside an object");
    if (!attributes.emplace(xml.substr(at, equals - at), xml.substr(equals + 2, end - equals - 2)).second)
      refuse("gives an attribute twice");
    at = end + 1;
  }
}

bool is_set(std::string_view text) {
  return text.starts_with("0x") && text.find_first_not_of("0123456789abcdefx,") == std::string_view::npos;
}

void check_object(const std::map<std::string_view, std::string_view>& attributes) {
  const auto type = attributes.find("type");
  if (type == attributes.end()) refuse("has an object without a type");
  constexpr std::array<std::string_view, 4> kWithoutSets{"Bridge", "PCIDev", "OSDev", "Misc"};
  if (std::find(kWithoutSets.begin(), kWithoutSets.end(), type->second) != kWithoutSets.end()) return;
  for (const std::string_view set : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
    const auto given = attributes.find(set);
    if (given == attributes.end() || !is_set(given->second))
      refuse("has a " + std::string(type->second.substr(0, 20)) + " without " + std::string(set));
  }
}

}  // namespace

void check_hwloc_document(const std::string& xml) {
  if (xml.size() > kMaxHwlocText)
    throw Error("hwloc XML: " + std::to_string(xml.size()) + " bytes are more than the " +
                std::to_string(kMaxHwlocText) + " allowed");
  // Another encoding could hide everything that is checked here.
  if (!xml.starts_with(R"(<?xml version="1.0" encoding="UTF-8"?>)") || xml.find('\0') != std::string::npos ||
      xml.find("<topology version=\"") == std::string::npos)
    refuse("not what hwloc 2 writes");
  // The document type must not declare anything, in particular no entities.
  constexpr std::string_view kDeclaration = R"(<!DOCTYPE topology SYSTEM "hwloc2.dtd">)";
  const std::size_t declaration = xml.find("<!DOCTYPE");
  if (declaration != std::string::npos && xml.compare(declaration, kDeclaration.size(), kDeclaration) != 0)
    refuse("has a document type of its own");
  constexpr std::string_view kTag = "<object";
  for (std::size_t at = 0; (at = xml.find(kTag, at)) != std::string::npos;) {
    at += kTag.size();
    check_object(read_attributes(xml, at));
  }
}

}  // namespace espalier
