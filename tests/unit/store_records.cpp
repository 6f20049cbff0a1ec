#include <doctest/doctest.h>

#include "planner/daemon/sqlite.hpp"
#include "planner/daemon/store.hpp"
#include "tests/unit/daemon_cases.hpp"

using namespace espalier;
using namespace espalier::test;

namespace {
DecisionRecord some_record(JobId id = 10) {
  DecisionRecord record;
  record.decision.time = 5;
  record.decision.kind = DecisionKind::grow;
  record.decision.job = id;
  record.decision.plan = *job(id, "n1", {0, 1}).plan;
  record.decision.acquire = {{"n1", 2, 2, 100, 60}};
  record.decision.candidates = {{"pp2 dp1 tp1", 1, 0.5, 1.25, "slower"}};
  record.moments = {{"decided", 5.5}};
  return record;
}

Knowledge some_knowledge(std::uint32_t uid, const std::string& kind) {
  Knowledge row;
  row.uid = uid;
  row.job = kind;
  row.gpus = "h100";
  row.coefficients = {{"layers", 8}};
  row.speed.add(3);
  row.pause.add(0.5);
  row.start.add(2);
  row.spread = 0.01;
  row.first = 5;
  row.updated = 10;
  return row;
}
}  // namespace

TEST_CASE("a decision is read back as it was written, also by the next process") {
  const Folder folder;
  std::int64_t id = 0;
  {
    Store store(folder.file("a.db"));
    id = store.add(some_record());
    auto record = *store.decision(id);
    record.decision.outcome = "committed";
    record.decision.pause_ms = 7;
    record.phases_ms = {{"acquire", 3}};
    record.generation = 2;
    record.step = 40;
    store.update(record);
  }
  Store store(folder.file("a.db"));
  const auto record = store.decision(id);
  REQUIRE(record);
  CHECK(record->decision.id == id);
  CHECK(record->decision.outcome == "committed");
  CHECK(record->decision.pause_ms == 7);
  CHECK(record->decision.plan == some_record().decision.plan);
  CHECK(record->decision.candidates.at(0).rejected_by == "slower");
  CHECK(record->moments.at("decided") == 5.5);
  CHECK(record->phases_ms.at("acquire") == 3);
  CHECK(record->generation == 2);
  CHECK(record->step == 40);
  CHECK_FALSE(store.decision(id + 1));
}

TEST_CASE("decisions come newest first, of one job or of all, and only as many as asked for") {
  const Folder folder;
  Store store(folder.file("a.db"));
  for (const JobId id : {10, 11, 10}) store.add(some_record(id));
  CHECK(store.decisions({}, 10).size() == 3);
  CHECK(store.decisions(10, 10).size() == 2);
  CHECK(store.decisions({}, 1).at(0).decision.id == 3);
  store.prune(1, 1);
  CHECK(store.decisions({}, 10).size() == 1);
  CHECK(store.add(some_record()) == 4);  // ids are never reused
}

TEST_CASE("open decisions are closed, ended ones are left alone") {
  const Folder folder;
  Store store(folder.file("a.db"));
  auto done = some_record();
  done.decision.outcome = "committed";
  const auto open = store.add(some_record());
  const auto closed = store.add(done);
  CHECK(store.close_open("aborted: test") == std::vector<std::int64_t>{open});
  CHECK(store.decision(open)->decision.outcome == "aborted: test");
  CHECK(store.decision(closed)->decision.outcome == "committed");
}

TEST_CASE("jobs, holds, transitions and topologies") {
  const Folder folder;
  Store store(folder.file("a.db"));
  ElasticJob told = job(10, "n1", {0, 1});
  told.gpu_islands = {{"n1/10", {0, 1}}};
  told.jobs_reach = true;
  told.parallel.lists = "0F0,0B0\n";
  store.save(told, 1);
  CHECK(store.job(10)->job.max_gpus == 8);
  CHECK(store.job(10)->job.gpu_islands.empty());  // a planner of the version before would refuse the record
  CHECK_FALSE(store.job(10)->job.jobs_reach);
  CHECK(store.job(10)->job.parallel.lists.empty());
  CHECK_FALSE(store.job(10)->ended);
  CHECK_FALSE(store.job(11));
  store.hold(10, true);
  store.hold(10, true);
  CHECK(store.held(10));
  store.end(10, 3, 2);
  CHECK(store.job(10)->ended);
  CHECK(store.job(10)->exit_code == 3);
  CHECK_FALSE(store.held(10));
  store.add(wire::Transition{10, 1, "running", "propose", "acquiring", 0, 1});
  CHECK(store.transitions(10, 5).at(0).to == "acquiring");
  store.save_topology("n1", "<?xml?>", 1);
  store.save_topology("n1", "<?xml?>", 2);
  CHECK(store.topologies().at("n1") == 2);
  store.save_topology("n2", "<?xml two?>", 3);
  CHECK(store.topology_documents() == std::map<std::string, std::string>{{"n1", "<?xml?>"}, {"n2", "<?xml two?>"}});
}

TEST_CASE("a job's coefficients are kept as long as the job") {
  const Folder folder;
  Store store(folder.file("a.db"));
  CHECK_FALSE(store.coefficients(10));
  store.save(job(10, "n1", {0, 1}), 1);
  store.save_coefficients(10, Json{{"layers", 8}});
  store.save_coefficients(10, Json{{"layers", 9}});
  store.save(job(10, "n1", {0, 1}), 2);
  store.end(10, 0, 3);
  CHECK(store.coefficients(10) == Json{{"layers", 9}});
  store.prune(1, 1);  // job without decisions
  CHECK_FALSE(store.coefficients(10));
}

TEST_CASE("a store of the second schema gets a place for coefficients") {
  const Folder folder;
  { Store(folder.file("a.db")).save(job(10, "n1", {0, 1}), 1); }
  {
    Database old(folder.file("a.db"));
    old.execute("DROP TABLE coefficients");
    old.execute("DROP TABLE knowledge");
    old.execute("PRAGMA user_version=2");
  }
  Store store(folder.file("a.db"));
  CHECK(store.job(10));
  store.save_coefficients(10, Json{{"layers", 8}});
  CHECK(store.coefficients(10));
}

TEST_CASE("a store of the third schema keeps what it has, and gets a place for what jobs teach") {
  const Folder folder;
  {
    Store store(folder.file("a.db"));
    store.save(job(10, "n1", {0, 1}), 1);
    store.save_coefficients(10, Json{{"layers", 8}});
    store.add(some_record());
  }
  {
    Database old(folder.file("a.db"));
    old.execute("DROP TABLE knowledge");
    old.execute("PRAGMA user_version=3");
  }
  Knowledge row = some_knowledge(1000, "{}");
  {
    Store store(folder.file("a.db"));
    CHECK(store.coefficients(10) == Json{{"layers", 8}});
    CHECK(store.decision(1));
    CHECK(store.newest_knowledge(10).empty());
    store.save(row);
  }
  Store store(folder.file("a.db"));
  CHECK(store.newest_knowledge(10).size() == 1);
}

TEST_CASE("a job's scale table is kept as long as its record; a store of the sixth schema gets a place for it") {
  const Folder folder;
  {
    Store store(folder.file("a.db"));
    store.save(job(10, "n1", {0, 1}), 1);
    CHECK_FALSE(store.scale(10));
    store.save_scale(10, Json{{"rows", Json::array({1})}});
    store.save_scale(10, Json{{"rows", Json::array({1, 2})}});
    CHECK(store.scale(10)->at("rows").size() == 2);
  }
  {
    Store store(folder.file("a.db"));
    CHECK(store.scale(10)->at("rows").size() == 2);
    store.end(10, 0, 2);
    store.prune(0, 0);
    CHECK_FALSE(store.scale(10));
  }
  {
    Database old(folder.file("a.db"));
    old.execute("DROP TABLE scale_tables");
    old.execute("PRAGMA user_version=6");
  }
  Store store(folder.file("a.db"));
  store.save_scale(11, Json::object());
  CHECK(store.scale(11));
}

TEST_CASE("a store of the seventh schema loses its table of extensions, which nobody reads, and nothing else") {
  const Folder folder;
  { Store(folder.file("a.db")).save(job(10, "n1", {0, 1}), 1); }
  const auto has_table = [&] {
    Database file(folder.file("a.db"));
    return file.prepare("SELECT 1 FROM sqlite_master WHERE name='extensions'").step();
  };
  CHECK_FALSE(has_table());
  {
    Database old(folder.file("a.db"));
    old.execute("CREATE TABLE extensions(id INTEGER PRIMARY KEY, anchor INTEGER, node TEXT, since REAL, gone REAL)");
    old.execute("INSERT INTO extensions VALUES(20, 10, 'n1', 1, 0)");
    old.execute("PRAGMA user_version=7");
  }
  CHECK(has_table());
  Store store(folder.file("a.db"));
  CHECK(store.job(10));
  CHECK_FALSE(has_table());
}

TEST_CASE("a record of another user's job under the same number has none of what the job before used and did") {
  const Folder folder;
  Store store(folder.file("a.db"));
  ElasticJob one = job(10, "n1", {0, 1});
  one.uid = 1000;
  store.save(one, 1);
  TrainingUsage usage;
  usage.trained = 50;
  store.save(10, usage);
  store.save({10, 10, 1000, 2, 50, 90, true});
  store.save({20, 10, 1000, 2, 60, 90, true});
  store.save({30, 11, 1000, 2, 60, 90, true});  // of another job
  store.add(wire::Transition{10, 1, "running", "propose", "acquiring", 0, 1}, 1000);
  store.save(one, 2);
  CHECK(store.owner(10) == 1000u);
  CHECK(store.training(10));
  CHECK(store.allocations(10).size() == 2);
  one.uid = 1001;
  store.save(one, 3);
  CHECK(store.owner(10) == 1001u);
  CHECK_FALSE(store.owner(11));
  CHECK_FALSE(store.training(10));
  CHECK(store.allocations(10).empty());
  CHECK(store.allocations(11).size() == 1);
  store.add(wire::Transition{10, 2, "running", "propose", "leaving", 0, 2}, 1001);
  CHECK(store.transitions(10, 5).size() == 2);
  REQUIRE(store.transitions(10, 5, 1001).size() == 1);
  CHECK(store.transitions(10, 5, 1001).front().to == "leaving");
}

TEST_CASE("what a job taught is read back as it was written, and once for each kind of job, user, GPUs and driver") {
  const Folder folder;
  Knowledge row = some_knowledge(1000, "{\"family\":\"gpt2\"}");
  {
    Store store(folder.file("a.db"));
    store.save(row);
    CHECK(row.id > 0);
    row.updated = 20;
    row.speed.add(4);
    store.save(row);
    for (const char* driver : {"1.0", "2.0"}) {
      Knowledge other = some_knowledge(1000, row.job);
      other.driver = driver;
      store.save(other);
      CHECK(other.id != row.id);
    }
    Knowledge others = some_knowledge(1001, row.job);
    store.save(others);
  }
  Store store(folder.file("a.db"));
  CHECK(store.newest_knowledge(10).size() == 4);
  CHECK(store.newest_knowledge(1).front().id == row.id);  // the newest
  CHECK(store.knowledge_of(row.job).size() == 4);
  CHECK(store.knowledge_ids(std::nullopt, 10).size() == 4);
  CHECK(store.knowledge_ids(1000, 10).size() == 3);
  CHECK(store.knowledge_ids(1000, 1) == std::vector<std::int64_t>{row.id});
  CHECK(store.knowledge_ids(1001, 10).size() == 1);
  CHECK(store.knowledge_ids(1002, 10).empty());
  CHECK(store.knowledge_of("{}").empty());
  const auto back = store.knowledge(row.id);
  REQUIRE(back);
  CHECK(back->uid == 1000);
  CHECK(back->job == row.job);
  CHECK(back->gpus == "h100");
  CHECK(back->coefficients == Json{{"layers", 8}});
  CHECK(back->speed == row.speed);
  CHECK(back->pause == row.pause);
  CHECK(back->start == row.start);
  CHECK(back->spread == row.spread);
  CHECK(back->first == row.first);
  CHECK(back->updated == 20);
  CHECK(store.forget_knowledge(row.id));
  CHECK_FALSE(store.forget_knowledge(row.id));
  CHECK_FALSE(store.knowledge(row.id));
}

TEST_CASE("the rows of one user and of all are bounded, and the oldest go first") {
  const Folder folder;
  Store store(folder.file("a.db"));
  const auto add = [&](std::uint32_t uid, int number) {
    Knowledge row = some_knowledge(uid, Json{{"layers", number}}.dump());
    row.updated = number;
    store.save(row, 3, 5);
  };
  for (int i = 1; i <= 6; ++i) add(1000, i);
  CHECK(store.newest_knowledge(100).size() == 3);
  CHECK(store.newest_knowledge(100).back().updated == 4);
  for (int i = 7; i <= 9; ++i) add(1001, i);
  REQUIRE(store.newest_knowledge(100).size() == 5);
  CHECK(store.newest_knowledge(100).front().updated == 9);
  CHECK(store.newest_knowledge(100).back().updated == 5);
}

TEST_CASE("the rows of a user with many do not push out those of a user with few") {
  const Folder folder;
  Store store(folder.file("a.db"));
  const auto add = [&](std::uint32_t uid, int number) {
    Knowledge row = some_knowledge(uid, Json{{"layers", number}}.dump());
    row.updated = number;
    store.save(row, 4, 5);
  };
  add(1000, 1);
  add(1001, 2);
  for (int i = 3; i <= 12; ++i) add(1002, i);
  const auto left = store.newest_knowledge(100);
  std::vector<std::pair<std::uint32_t, double>> found;
  for (const Knowledge& row : left) found.emplace_back(row.uid, row.updated);
  CHECK(found ==
        std::vector<std::pair<std::uint32_t, double>>{{1002, 12}, {1002, 11}, {1002, 10}, {1001, 2}, {1000, 1}});
  // A lower limit than before takes from the user who has the most, until there are few enough.
  Knowledge last = some_knowledge(1003, "{}");
  last.updated = 13;
  store.save(last, 4, 3);
  found.clear();
  for (const Knowledge& row : store.newest_knowledge(100)) found.emplace_back(row.uid, row.updated);
  CHECK(found == std::vector<std::pair<std::uint32_t, double>>{{1003, 13}, {1002, 12}, {1001, 2}});
}

TEST_CASE("decisions of the first schema are read without their candidates") {
  const Folder folder;
  { Store(folder.file("a.db")).add(some_record()); }
  {
    Database old(folder.file("a.db"));
    old.execute("UPDATE decisions SET record=json_set(record, '$.candidates', json('[{\"plan\":{},\"benefit\":1}]'))");
    old.execute("ALTER TABLE decisions DROP COLUMN candidates");  // of schema 5
    old.execute("DROP TABLE coefficients");
    old.execute("DROP TABLE knowledge");
    old.execute("PRAGMA user_version=1");
  }
  Store store(folder.file("a.db"));
  REQUIRE(store.decision(1));
  CHECK(store.decision(1)->decision.candidates.empty());
  CHECK(store.decision(1)->decision.reason == some_record().decision.reason);
}

TEST_CASE("a file of a newer schema, or that is no store, is refused") {
  const Folder folder;
  { Database(folder.file("new.db")).execute("PRAGMA user_version=99"); }
  CHECK_THROWS_AS(Store(folder.file("new.db")), Error);
  CHECK_THROWS_AS(Store(folder.file("missing/a.db")), Error);
  std::FILE* file = std::fopen(folder.file("text.db").c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("this is not a database, it is a text that is long enough to be looked at", file);
  std::fclose(file);
  CHECK_THROWS_WITH_AS(Store(folder.file("text.db")), doctest::Contains("move the file away"), Error);
}
