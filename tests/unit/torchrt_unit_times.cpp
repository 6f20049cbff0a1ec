// How long an imitated device takes for a unit: from a constant speed, or from a table in a file.
#include <doctest/doctest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "planner/core/error.hpp"
#include "torchrt/model_flops.hpp"
#include "torchrt/unit_times.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

ModelConfig model() {
  ModelConfig config;
  config.layers = 2;
  config.hidden = 8;
  config.heads = 2;
  config.head_size = 4;
  config.sequence = 16;
  config.vocabulary = 32;
  return config;
}

struct TableFile {
  std::string path;
  explicit TableFile(const std::string& text) {
    char name[] = "/tmp/espalier-times-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0);
    close(fd);
    path = name;
    std::ofstream(path) << text;
  }
  ~TableFile() { std::remove(path.c_str()); }
};

std::string row(const std::string& unit, const std::string& tp, const std::string& samples,
                const std::string& forward) {
  return R"({"unit": ")" + unit + R"(", "tp": )" + tp + R"(, "samples": )" + samples + R"(, "forward_ms": )" + forward +
         R"(, "backward_ms": 20, "weight_gradient_ms": 30, "update_ms": 5})";
}

std::string complaint(const std::string& text) {
  const TableFile file(text);
  try {
    DeviceTimes times(file.path);
    return "";
  } catch (const Error& error) {
    const std::string start = "device.times: " + file.path + ": ", what = error.what();
    REQUIRE(what.rfind(start, 0) == 0);
    return what.substr(start.size());
  }
}

}  // namespace

TEST_CASE("on a device of constant speed a unit takes its FLOPs over the speed") {
  const UnitFlops flops = unit_flops(model(), 1, 1);
  const UnitTimes times = unit_times(model(), 1, 1, 3, 1e6);
  CHECK(times.forward == doctest::Approx(3 * 16 * flops.forward / 1e6));
  CHECK(times.backward == doctest::Approx(3 * 16 * flops.backward / 1e6));
  CHECK(times.weight_gradient == doctest::Approx(3 * 16 * flops.weight_gradient / 1e6));
  CHECK(times.update == doctest::Approx(flops.update / 1e6));
}

TEST_CASE("a table's rows are told apart by unit, degree and samples, and interpolated between samples") {
  const TableFile file("{\"rows\": [" + row("embedding", "1", "1", "1") + "," + row("block", "1", "1", "10") + "," +
                       row("block", "1", "4", "40") + "," + row("block", "2", "1", "7") + "," +
                       row("head", "1", "1", "100") + "]}");
  const DeviceTimes times(file.path);
  CHECK(times.of(model(), 0, 1, 1).forward == doctest::Approx(0.001));
  CHECK(times.of(model(), 1, 1, 1).forward == doctest::Approx(0.010));
  CHECK(times.of(model(), 2, 1, 4).forward == doctest::Approx(0.040));
  CHECK(times.of(model(), 2, 1, 2).forward == doctest::Approx(0.020));
  CHECK(times.of(model(), 2, 2, 1).forward == doctest::Approx(0.007));
  CHECK(times.of(model(), 3, 1, 1).forward == doctest::Approx(0.100));
  CHECK(times.of(model(), 1, 1, 1).backward == doctest::Approx(0.020));
  CHECK(times.of(model(), 1, 1, 1).weight_gradient == doctest::Approx(0.030));
  CHECK(times.of(model(), 1, 1, 1).update == doctest::Approx(0.005));
  const std::string start = "device.times: " + file.path + ": has no row for unit ";
  CHECK_THROWS_WITH_AS(times.of(model(), 0, 2, 1), (start + "embedding, tp 2; add one").c_str(), Error);
  CHECK_THROWS_AS(times.of(model(), 1, 1, 5), Error);
  CHECK_THROWS_AS(times.of(model(), 0, 1, 2), Error);
  const TableFile other("{\"rows\": []}");
  CHECK(DeviceTimes(other.path).checksum() != times.checksum());
}

TEST_CASE("a table that is none is refused in words") {
  CHECK(complaint("{") != "");
  CHECK(complaint("{}") != "");
  CHECK(complaint("{\"rows\": [{}]}") != "");
  CHECK(complaint("{\"rows\": [" + row("layer", "1", "1", "1") + "]}") ==
        "unit: is \"layer\"; known are embedding, block, mtp and head");
  CHECK(complaint("{\"rows\": [" + row("block", "0", "1", "1") + "]}") == "tp: must lie between 1 and 1048576");
  CHECK(complaint("{\"rows\": [" + row("block", "1", "-1", "1") + "]}") == "samples: must lie between 1 and 1048576");
  CHECK(complaint("{\"rows\": [" + row("block", "1", "1", "-1") + "]}") == "forward_ms: must lie between 0 and 1e6");
  CHECK(complaint("{\"rows\": [" + row("block", "1", "1", "1e7") + "]}") == "forward_ms: must lie between 0 and 1e6");
  CHECK(complaint("{\"rows\": [" + row("block", "1", "1", "1") + "," + row("block", "1", "1", "2") + "]}") ==
        "two rows for unit block, tp 1, samples 1");
  CHECK_THROWS_WITH_AS(DeviceTimes("/nowhere"), "device.times: /nowhere: cannot be read", Error);
}
