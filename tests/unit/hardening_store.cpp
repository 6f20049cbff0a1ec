// What the decision store keeps of each user: attacks on its size.
#include <doctest/doctest.h>

#include "planner/core/error.hpp"
#include "planner/daemon/store.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

TEST_CASE("what was measured of a user's jobs, and what they taught, count as the user's, and the oldest goes first") {
  const Folder folder;
  Store store(folder.file("a.db"));
  StoreLimits limits;
  limits.bytes = 200000;
  store.limit(limits);
  const Json fat{{"values", std::string(10000, 'v')}};
  const auto save_job = [&](JobId id, std::uint32_t uid) {
    ElasticJob one = job(id, "n1", {0, 1});
    one.uid = uid;
    store.save(one, static_cast<double>(id));
  };
  const auto teach = [&](std::uint32_t uid, int number) {
    Knowledge row;
    row.uid = uid;
    row.job = "job " + std::to_string(number) + std::string(5000, 'j');
    row.updated = number;
    store.save(row);
  };
  save_job(20, 1001);
  store.save_coefficients(20, fat);
  store.save_scale(20, fat);
  teach(1001, 1);
  for (JobId id = 100; id < 200; ++id) {
    save_job(id, 1000);
    store.save_coefficients(id, fat);
    store.save_coefficients(id, fat);
    store.save_scale(id, fat);
    store.end(id, 0, static_cast<double>(id));
  }
  for (int i = 0; i < 200; ++i) teach(1000, i);
  CHECK(store.used() <= limits.bytes);
  CHECK(store.coefficients(20));
  CHECK(store.scale(20));
  CHECK(store.newest_knowledge_of(1001, 10).size() == 1);
  CHECK_FALSE(store.coefficients(100));
  CHECK(store.coefficients(199));
  const auto taught = store.newest_knowledge_of(1000, 300);
  CHECK(taught.size() < 200);
  REQUIRE_FALSE(taught.empty());
  CHECK(taught.front().updated == 199);
  CHECK(store.take_written() > 100 * 3 * 10000);
  CHECK(Store(folder.file("a.db")).used() == store.used());
  save_job(199, 1001);  // Slurm has given the number again
  CHECK_FALSE(store.coefficients(199));
  CHECK_THROWS_AS(store.save_scale(20, Json(std::string(Store::kMostRow, 'x'))), Error);
}

TEST_CASE("rows of jobs that run stay, and cost other users no more than what they have above an equal share") {
  const Folder folder;
  Store store(folder.file("a.db"));
  const auto teach = [&](std::uint32_t uid, int number) {
    Knowledge row;
    row.uid = uid;
    row.job = "job " + std::to_string(number) + std::string(2500, 'j');
    for (int i = 0; i < 2500; ++i) row.job += "\u00fc";  // two bytes each
    row.updated = number;
    store.save(row);
  };
  for (int i = 0; i < 20; ++i) teach(1001, i);
  for (int i = 0; i < 5; ++i) teach(1002, i);
  for (JobId id = 100; id < 130; ++id) {
    ElasticJob one = job(id, "n1", {0, 1});
    one.uid = 1000;
    store.save(one, static_cast<double>(id));
    store.save_coefficients(id, Json{{"values", std::string(10000, 'v')}});
  }
  StoreLimits limits;
  limits.bytes = 200000;
  store.limit(limits);
  CHECK(store.coefficients(100));
  const std::size_t left = store.newest_knowledge_of(1001, 100).size();
  CHECK(left > 3);
  CHECK(left < 9);  // over 7.5 kB each, of a third of 200 kB
  CHECK(store.newest_knowledge_of(1002, 100).size() == 5);
  CHECK(Store(folder.file("a.db")).used() == store.used());
}
