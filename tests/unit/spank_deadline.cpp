#include "spank/deadline.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>
#include <string>

namespace {

// What is said at `now` of a deadline; empty: it can be met.
std::string said(const char* text, std::time_t now) {
  espalier_elastic elastic{};
  char why[ESPALIER_MESSAGE_MAX] = "";
  REQUIRE(espalier_elastic_parse(text, &elastic, why, sizeof(why)) == 0);
  return espalier_deadline_check(text, &elastic, now, why, sizeof(why)) == 0 ? "" : why;
}

// The time zone of this process while it lives.
struct Zone {
  explicit Zone(const char* name) { set(name); }
  ~Zone() {
    if (known) set(before.c_str());
    else ::unsetenv("TZ"), ::tzset();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  static void set(const char* name) {
    ::setenv("TZ", name, 1);
    ::tzset();
  }
  const bool known = std::getenv("TZ") != nullptr;
  const std::string before = known ? std::getenv("TZ") : "";
};

constexpr std::time_t kNoon = 1796126400;  // 2026-12-01T12:00:00 UTC

}  // namespace

TEST_CASE("a deadline is over from its second on, by the time zone of who submits") {
  const Zone zone("UTC");
  CHECK(said("2:8,deadline=2026-12-01T12:00", kNoon - 1).empty());
  CHECK(said("2:8,deadline=2026-12-01T12:00", kNoon) ==
        "espalier: elastic: \"2:8,deadline=2026-12-01T12:00\": the deadline is over already; give a later deadline, or "
        "leave deadline= out");
  CHECK(said("2:8,deadline=2026-12-01T12:00:10", kNoon).empty());
  CHECK(said("2:8,deadline=2026-12-02", kNoon).empty());
  CHECK_FALSE(said("2:8,deadline=2026-12-01", kNoon).empty());
  CHECK(said("2:8", kNoon).empty());
  Zone::set("UTC-6");  // six hours east of it
  CHECK_FALSE(said("2:8,deadline=2026-12-01T17:59", kNoon).empty());
  CHECK(said("2:8,deadline=2026-12-01T18:01", kNoon).empty());
}
