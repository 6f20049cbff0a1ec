// What a job says of its links, as it comes from another process.
#include <doctest/doctest.h>

#include <limits>

#include "planner/core/error.hpp"
#include "planner/wire/links_field.hpp"

using namespace espalier;

namespace {

const Plan kPlan = uniform_plan(2, 2, 4, 8, 2, {{"n1", 0}, {"n1", 1}, {"n2", 0}, {"n2", 1}});

std::string refusal(const Json& json) {
  try {
    link_look(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a look comes back from its frame as it was, and a frame without one has none") {
  const wire::Frame frame = wire::with_links({"profile"}, {3, {{"n1", "n2", 1.5}}});
  wire::Frame there;
  const std::string bytes = wire::encode(frame);
  REQUIRE(wire::decode(bytes, there));
  const LinkLook look = wire::links_of(there);
  CHECK(look.number == 3);
  REQUIRE(look.figures.size() == 1);
  CHECK(look.figures[0].from == "n1");
  CHECK(look.figures[0].to == "n2");
  CHECK(look.figures[0].gb_s == 1.5);
  CHECK_FALSE(wire::with_links({"profile"}, {}).body.contains("links"));
  CHECK(wire::links_of({"profile"}).number == 0);
  wire::Frame newer = frame;
  newer.body["links"]["more"] = 1;  // of a newer version
  CHECK(wire::links_of(newer).number == 3);
}

TEST_CASE("what is no look is refused by field") {
  const Json good = json_of({1, {{"n1", "n2", 1}}});
  CHECK(refusal(good).empty());
  const auto changed = [&](auto change) {
    Json json = good;
    change(json);
    return refusal(json);
  };
  CHECK(refusal(5) == "links: must be a JSON object");
  CHECK(changed([](Json& j) { j.erase("number"); }) == "links.number: missing");
  CHECK(changed([](Json& j) { j["number"] = "1"; }) == "links.number: must be a whole number");
  CHECK(changed([](Json& j) { j["number"] = 1e10; }) == "links.number: must be a whole number");
  CHECK(changed([](Json& j) { j["figures"] = 1; }) == "links.figures: must be a list");
  CHECK(changed([](Json& j) { j["figures"][0] = 1; }) == "links.figures: must be a JSON object");
  CHECK(changed([](Json& j) { j["figures"][0].erase("to"); }) == "links.figures.to: missing");
  CHECK(changed([](Json& j) { j["figures"][0]["from"] = 1; }) == "links.figures.from: must be a string");
  CHECK(changed([](Json& j) { j["figures"][0]["gb_s"] = "1"; }) == "links.figures.gb_s: must be a number");
  CHECK(refusal(json_of({1, std::vector<LinkFigure>(257, {"n1", "n2", 1})})) == "links.figures: must be at most 256");
}

TEST_CASE("a look that cannot be of the plan, or that no machine reaches, is refused by name") {
  const auto why = [](const LinkLook& look) { return unfit(look, kPlan); };
  CHECK(why({}).empty());
  CHECK(why({1, {}}).empty());
  CHECK(why({1, {{"n2", "n1", 1e6}}}).empty());
  CHECK(why({-1, {}}) == "links: the look's number must be 1 or more");
  CHECK(why({0, {{"n1", "n2", 1}}}) == "links: the look's number must be 1 or more");
  CHECK(why({1, {{"n1", "n3", 1}}}) == "links: a node that is not in the plan");
  CHECK(why({1, {{"", "n1", 1}}}) == "links: a node that is not in the plan");
  CHECK(why({1, {{"n2", "n2", 1}}}) == "links: a link from n2 to itself");
  for (const double gb_s :
       {0.0, -1.0, 1e7, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK(why({1, {{"n1", "n2", gb_s}}}) == "links: n1 to n2: gb_s is no bandwidth");
  CHECK(why({1, {{"n1", "n2", 1}, {"n2", "n1", 2}}}) == "links: n2 to n1: reported twice");
  CHECK(why({1, std::vector<LinkFigure>(257, {"n1", "n2", 1})}) == "links: more figures than a look has");
}
