#include "planner/core/link_look.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/core/fields.hpp"

namespace espalier {
namespace {

constexpr double kMostGbS = 1e6;

}  // namespace

Json json_of(const LinkLook& look) {
  Json figures = Json::array();
  for (const LinkFigure& one : look.figures)
    figures.push_back({{"from", one.from}, {"to", one.to}, {"gb_s", one.gb_s}});
  return {{"number", look.number}, {"figures", std::move(figures)}};
}

LinkLook link_look(const Json& json) {
  const Fields fields(json, "links", {"number", "figures"});
  LinkLook look;
  fields.get("number", look.number);
  Json list;
  fields.get("figures", list);
  if (!list.is_array()) throw Error("links.figures: must be a list");
  if (list.size() > kMostLinkFigures) throw Error("links.figures: must be at most " + std::to_string(kMostLinkFigures));
  for (const Json& item : list) {
    const Fields of(item, "links.figures", {"from", "to", "gb_s"});
    LinkFigure& one = look.figures.emplace_back();
    of.get("from", one.from);
    of.get("to", one.to);
    of.get("gb_s", one.gb_s);
  }
  return look;
}

std::string unfit(const LinkLook& look, const Plan& plan) {
  if (look.number < 0 || (look.number == 0 && !look.figures.empty()))
    return "links: the look's number must be 1 or more";
  if (look.figures.size() > kMostLinkFigures) return "links: more figures than a look has";
  std::set<std::string> nodes;
  for (const GpuId& gpu : plan.ranks()) nodes.insert(gpu.node);
  std::set<std::pair<std::string, std::string>> seen;
  for (const LinkFigure& one : look.figures) {
    if (!nodes.contains(one.from) || !nodes.contains(one.to)) return "links: a node that is not in the plan";
    if (one.from == one.to) return "links: a link from " + one.from + " to itself";
    const std::string name = "links: " + one.from + " to " + one.to + ": ";
    if (!(one.gb_s > 0 && one.gb_s <= kMostGbS)) return name + "gb_s is no bandwidth";
    if (!seen.insert(std::minmax(one.from, one.to)).second) return name + "reported twice";
  }
  return "";
}

}  // namespace espalier
