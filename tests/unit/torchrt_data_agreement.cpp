#include <doctest/doctest.h>
#include <fcntl.h>

#include <climits>
#include <fstream>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_checkpoint_cases.hpp"
#include "torchrt/checkpoint/resume.hpp"
#include "torchrt/data_agreement.hpp"
#include "torchrt/recovery/marks.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Bytes that differ from block to block.
std::string content(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i * 7 + i / 4096);
  return text;
}

class DataFolder {
 public:
  DataFile file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return {folder_ / name, fingerprint(InputFile(folder_ / name, "data file"), TokenFormat::bytes)};
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TestFolder folder_;
};

std::vector<char> report(const std::string& host, const DataFiles& files) {
  const std::string text = data_report(host, files);
  return {text.begin(), text.end()};
}

DataFile made_up(const std::string& path, std::uint64_t bytes, std::uint64_t checksum = 1) {
  return {path, {bytes, TokenFormat::bytes, checksum}};
}

}  // namespace

TEST_CASE("a copy of a data file is the same; one that is longer, shorter or changed in a block is another") {
  const DataFolder folder;
  const std::string text = content(1'000'003);
  const DataFile one = folder.file("one", text);
  CHECK(folder.file("copy", text).is == one.is);
  CHECK(one.is.bytes == text.size());
  CHECK_FALSE(folder.file("longer", text + "x").is == one.is);
  CHECK_FALSE(folder.file("shorter", text.substr(0, text.size() - 1)).is == one.is);
  for (const std::size_t place : {std::size_t{0}, std::size_t{4095}, text.size() - 1, text.size() - 4096}) {
    std::string changed = text;
    changed[place] ^= 1;
    CHECK_FALSE(folder.file("changed", changed).is == one.is);
  }
  CHECK_FALSE(fingerprint(InputFile(one.path, "data file"), TokenFormat::uint16) == one.is);
}

TEST_CASE("a data file of up to 256 KiB is read whole") {
  const DataFolder folder;
  const std::string text = content(64 * 4096);
  const DataFile one = folder.file("one", text);
  for (std::size_t place = 0; place < text.size(); place += 4099) {
    std::string changed = text;
    changed[place] ^= 1;
    CHECK_FALSE(folder.file("changed", changed).is == one.is);
  }
  CHECK(folder.file("empty", "").is.bytes == 0);
}

TEST_CASE("recognising a data file costs the same however long it is") {
  const DataFolder folder;
  std::ofstream(folder / "huge").put('x');
  std::filesystem::resize_file(folder / "huge", std::uintmax_t{1} << 40);  // a hole, which would take minutes to read
  CHECK(fingerprint(InputFile(folder / "huge", "data file"), TokenFormat::bytes).bytes == std::uint64_t{1} << 40);
}

TEST_CASE("ranks with different files are named with their hosts and sizes") {
  const DataFiles whole{made_up("/data/text", 1000), {}}, stale{made_up("/scratch/text", 900), {}};
  CHECK(data_number(whole) == data_number({made_up("/elsewhere/text", 1000), {}}));
  CHECK(data_number(whole) != data_number(stale));
  CHECK(data_number(whole) >= 0);
  CHECK(data_difference({report("n1", whole), report("n1", whole), report("n2", stale), report("n3", stale)}) ==
        "data file: rank 0 on n1 reads /data/text (1000 bytes, format bytes, checksum 0000000000000001), rank 2 on n2 "
        "reads /scratch/text (900 bytes, format bytes, checksum 0000000000000001); give all nodes the same file");
}

TEST_CASE("ranks that validate on different files are named, too") {
  const DataFiles one{made_up("t", 1000), made_up("v", 10)}, other{made_up("t", 1000), made_up("v", 10, 2)};
  const DataFiles none{made_up("t", 1000), {}};
  CHECK(data_number(one) != data_number(other));
  CHECK(data_number(one) != data_number(none));
  const std::string said = data_difference({report("n1", one), report("n2", other)});
  CHECK_MESSAGE(said.find("validation file: rank 0 on n1 reads v (10 bytes") == 0, said);
  CHECK(said.find("checksum 0000000000000002)") != std::string::npos);
  CHECK(data_difference({report("n1", one), report("n2", none)}).find("rank 1 on n2 reads none") != std::string::npos);
}

TEST_CASE("what a generation's marks tell of its data outlives every step, and other data is found by it") {
  Marks marks(2, 7);
  const DataFiles files{made_up("t", 1000), made_up("v", 10)};
  const DataMarks own = data_marks(files);
  marks.reads(own.data, own.validation);
  marks.agreed(5, 1.5, 2, 3);
  const wire::VaultMarks read = read_marks(UniqueFd(::fcntl(marks.fd(), F_DUPFD_CLOEXEC, 0)));
  CHECK(read.step == 5);
  CHECK(read.settings == 7);
  const DataMarks before{read.data, read.validation};
  CHECK(changed_since(before, files).empty());
  CHECK(changed_since(DataMarks{}, files).empty());  // a generation of a version that did not tell it
  CHECK(changed_since(before, {made_up("t", 1000), {}}).empty());
  CHECK(changed_since(before, {made_up("t", 1001), {}}) ==
        "data file t (1001 bytes, format bytes, checksum 0000000000000001): is not the one that the job has trained "
        "with so far");
  CHECK(changed_since(before, {made_up("t", 1000), made_up("v", 11)}).find("validation file v (11 bytes") == 0);
}

TEST_CASE("a checkpoint is not resumed with other data, unless data.changed says so") {
  const TestFolder folder;
  Config config = checkpoint_config(folder.path(), tiny_model("gpt2", true));
  const DataFiles then{made_up("/data/text", 1000), made_up("v", 10)}, grown{made_up("text", 2000), made_up("v", 10)};
  write_checkpoint(config, {{2, 3}, {1, 1}, {1, 1}}, 10, to_facts(then));
  std::string said;
  const auto find = [&](const DataFiles* files) {
    said.clear();
    const RankSum alone{0, 1, [](double value) { return value; }};
    return find_resumption(
        config, alone, [&](const std::string& what) { said += what; }, files);
  };
  CHECK(find(&then).step() == 10);
  CHECK(find(nullptr).step() == 10);  // to export it
  CHECK(said.empty());
  const std::string changed =
      "checkpoint " + folder.path() +
      "/step-10: was written with the data file /data/text (1000 bytes, format bytes, checksum 0000000000000001), now "
      "it is text (2000 bytes, format bytes, checksum 0000000000000001)";
  CHECK_THROWS_WITH_AS(find(&grown), (changed + kRestoreData).c_str(), Error);
  config.data.changed = true;
  CHECK(find(&grown).step() == 10);
  CHECK(said == changed + kGoesOn);
}

TEST_CASE("a checkpoint that does not tell its data is resumed with any") {
  const DataFiles files{made_up("t", 1000), made_up("v", 10)};
  CHECK(changed_since(nlohmann::json::object(), "it", files).empty());
  CHECK(changed_since(nlohmann::json(), "it", files).empty());
  CHECK(changed_since({{"data", {{"bytes", "many"}}}}, "it", files).empty());
  CHECK(changed_since(to_facts({made_up("u", 1000), {}}), "it", files).empty());  // validation was added since
  CHECK_FALSE(changed_since(to_facts({made_up("t", 1000), made_up("v", 9)}), "it", files).empty());
}
