// The page that `espalier simulate --report` writes.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "planner/cli/simulate_plots.hpp"
#include "tests/unit/plan_files.hpp"

using namespace espalier;
using namespace espalier::cli;
using namespace espalier::plan_files;

namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("a distribution rises from its first value to 1 at its last") {
    const Curve curve = distribution("x", {3, 1, 2, 2});
    CHECK(curve.points == std::vector<std::pair<double, double>>{{1, 0.25}, {2, 0.5}, {2, 0.75}, {3, 1}});
    std::vector<double> many(5000);
    for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i);
    const Curve thinned = distribution("x", many);
    CHECK(thinned.points.size() <= 420);
    CHECK(thinned.points.back() == std::pair(4999.0, 1.0));
  }

  TEST_CASE("utilization is the mean over each slot of time") {
    sim::PolicyRun run;
    run.gpus = 4;
    run.levels = {{0, 2}, {1800, 4}, {5400, 0}};
    const Curve curve = utilization(run, 7200, 2);
    REQUIRE(curve.points.size() == 2);
    CHECK(curve.points[0].first == doctest::Approx(0.5));
    CHECK(curve.points[0].second == doctest::Approx((2 * 1800 + 4 * 1800) / (4 * 3600.0)));
    CHECK(curve.points[1].first == doctest::Approx(1.5));
    CHECK(curve.points[1].second == doctest::Approx(0.5));
  }

  TEST_CASE("the page holds its table and its plots, and asks for nothing from elsewhere") {
    const Folder folder;
    const std::string trace =
        folder.write("t<1>.csv", "id,submit,seconds,gpus\na,0,600,4\nb,100,900,8\nc,200,300,1\nd,250,1200,16\nbad\n");
    simulate(
        {"--cluster=cluster-a", "--trace=" + trace, "--policy=fifo,suika", "--quiet", "--report", folder.path("page")});
    std::ifstream in(folder.path("page/index.html"));
    const std::string page(std::istreambuf_iterator<char>(in), {});
    CHECK(count(page, "<svg") == 4);
    CHECK(count(page, "</svg>") == 4);
    CHECK(page.find("<td>suika</td>") != std::string::npos);
    CHECK(page.find("t&lt;1&gt;.csv") != std::string::npos);
    CHECK(page.find("line 6: 1 columns instead of 4") != std::string::npos);
    CHECK(count(page, "<script src") == 0);
    CHECK(count(page, "<link") == 0);
    CHECK(complaint(folder, [&] {
            simulate({"--cluster=cluster-a", "--trace=" + trace, "--policy=fifo", "--quiet", "--report",
                      folder.path("t<1>.csv")});
          }) == "t<1>.csv/index.html: cannot be written: Not a directory; name another folder by --report");
  }

  TEST_CASE("a gnuplot that is missing or fails is told, with what to do") {
    const Folder folder;
    const std::string path = std::getenv("PATH");
    setenv("PATH", folder.path("").c_str(), 1);
    const auto drawn = [&](const std::string& script) {
      if (!script.empty()) {
        std::filesystem::permissions(folder.write("gnuplot", "#!/bin/sh\n" + script + "\n"),
                                     std::filesystem::perms::owner_all);
      }
      return complaint(folder, [] { draw({"title", "x", "y", false, false, {{"a", {{0, 0}, {1, 1}}, 0}}}); });
    };
    CHECK(drawn("") == "gnuplot: is not installed; install gnuplot-nox, or leave --report out");
    CHECK(drawn("exit 1") == "gnuplot: could not draw the plots; install gnuplot-nox anew, or leave --report out");
    CHECK(drawn("exit 0") == "gnuplot: drew nothing; install gnuplot-nox anew, or leave --report out");
    CHECK(drawn("echo '<svg></svg>'") == "accepted");
    setenv("PATH", path.c_str(), 1);
  }
}
