// The messages of `espalier simulate` for each wrong argument.
#include <doctest/doctest.h>

#include "planner/cli/arguments.hpp"
#include "planner/cli/simulate_arguments.hpp"

using namespace espalier::cli;

namespace {

std::string usage(const std::vector<std::string>& words) {
  try {
    std::string help;
    parse_simulate(words, help);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// Adds the arguments that are always needed.
std::string of(std::vector<std::string> more) {
  more.insert(more.begin(), {"--cluster=cluster-a", "--trace=t.csv", "--policy=fifo"});
  return usage(more);
}

const std::string kPolicies =
    "fifo, sjf, backfill, slurm, suika, suika-dp, espalier, flextrain, flextrain-dp, arena-anchored, metis, sia, "
    "rubick, "
    "elasticflow, gavel, arena, bound";

}  // namespace

TEST_SUITE("simulate") {
  TEST_CASE("what is missing is named") {
    CHECK(usage({}) == "simulate: needs --cluster=FILE");
    CHECK(usage({"--cluster=cluster-a"}) == "simulate: needs --trace=FILE");
    CHECK(usage({"--cluster=cluster-a", "--trace=t"}) == "simulate: needs --policy=P[,P...], of " + kPolicies);
    CHECK(of({}) == "accepted");
  }

  TEST_CASE("words that are no argument, and arguments without a value, are named") {
    CHECK(of({"--nonsense"}) == "simulate: The following argument was not expected: --nonsense");
    CHECK(of({"trace.csv"}) == "simulate: The following argument was not expected: trace.csv");
    for (const char* option : {"--format",    "--jobs",       "--seed",         "--from",          "--to",
                               "--busiest",   "--trace-gpus", "--scale",        "--load",          "--mix",
                               "--mapping",   "--queue",      "--lambda",       "--short-first",   "--objective",
                               "--deadlines", "--trade",      "--idle-seconds", "--elastic-share", "--elastic-gpus",
                               "--movable",   "--error",      "--bandwidth",    "--sweep",         "--report"})
      CHECK(of({option}) == std::string("simulate: ") + option + ": 1 required TEXT missing");
  }

  TEST_CASE("policies are known, and named once") {
    const std::vector<std::string> words{"--cluster=a", "--trace=t"};
    CHECK(usage({"--cluster=a", "--trace=t", "--policy=fifo,lifo"}) ==
          "--policy: \"lifo\": no such policy; use one of " + kPolicies);
    CHECK(usage({"--cluster=a", "--trace=t", "--policy=fifo,"}) ==
          "--policy: \"\": no such policy; use one of " + kPolicies);
    CHECK(usage({"--cluster=a", "--trace=t", "--policy=fifo,fifo"}) == "--policy: fifo is named twice; name it once");
  }

  TEST_CASE("types are asked, preferred or any; measured times stand instead of a table of kinds") {
    const std::vector<std::string> words{"--cluster=a", "--trace=t", "--policy=fifo"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      return usage(more);
    };
    CHECK(with({"--types=some"}) == "--types: \"some\" is none; use asked, preferred or any");
    CHECK(with({"--profile=p", "--jobs=j"}) == "--profile: not beside --jobs; leave one of them out");
  }

  TEST_CASE("a sweep of movable jobs is refused where no policy moves bases") {
    CHECK(usage({"--cluster=a", "--trace=t", "--policy=suika,fifo", "--sweep=movable=0,0.5"}) ==
          "--sweep movable: only the policies espalier and arena-anchored move bases; name one in --policy, or leave "
          "--sweep movable out");
    CHECK(usage({"--cluster=a", "--trace=t", "--policy=espalier", "--sweep=movable=0,0.5"}) == "accepted");
  }

  TEST_CASE("a share of movable jobs is refused where no policy moves bases") {
    const auto with = [](const std::string& policies) {
      return usage({"--cluster=a", "--trace=t", "--movable=0.5", "--policy=" + policies});
    };
    CHECK(with("fifo,suika") ==
          "--movable: only the policies espalier and arena-anchored move bases; name one in --policy, or leave "
          "--movable out");
    CHECK(with("fifo,espalier") == "accepted");
    CHECK(with("arena-anchored") == "accepted");
  }

  TEST_CASE("numbers are numbers, and in their range") {
    const struct {
      const char *option, *range, *below, *above;
    } numbers[] = {{"seed", "0 and 1e+09", "-1", "2e9"},
                   {"trace-gpus", "0 and 1.67772e+07", "-1", "1e9"},
                   {"scale", "1e-06 and 1e+06", "0", "1e7"},
                   {"load", "0.01 and 100", "0", "101"},
                   {"lambda", "0 and 100", "-1", "101"},
                   {"short-first", "0 and 4", "-1", "5"},
                   {"idle-seconds", "0 and 1e+09", "-1", "2e9"},
                   {"trade", "0 and 100", "-1", "101"},
                   {"error", "0 and 1", "-0.1", "2"},
                   {"elastic-share", "0 and 1", "-0.1", "2"},
                   {"elastic-gpus", "1 and 1e+06", "0", "2e6"},
                   {"movable", "0 and 1", "-0.1", "1.01"},
                   {"bandwidth", "0.0001 and 100", "0", "101"},
                   {"busiest", "0.001 and 1e+06", "0", "1e7h"},
                   {"mix", "0 and 1e+06", "-1:1:1", "1e7:1:1"}};
    for (const auto& [option, range, below, above] : numbers) {
      const std::string name = std::string("--") + option;
      const std::string wrong = option == std::string("mix") ? "1:x:1" : "x";
      CHECK(of({name + "=" + wrong}) == name + ": \"x\" is no number; write one between " + range);
      CHECK(of({name + "=" + below}) == name + ": must be between " + range);
      CHECK(of({name + "=" + above}) == name + ": must be between " + range);
    }
    CHECK(of({"--elastic-gpus=32,6.5"}) == "--elastic-gpus: \"6.5\" is no whole number");
    CHECK(of({"--load=1x"}) == "--load: \"1x\" is no number; write one between 0.01 and 100");
    CHECK(of({"--load=inf"}) == "--load: \"inf\" is no number; write one between 0.01 and 100");
    CHECK(of({"--load=nan"}) == "--load: \"nan\" is no number; write one between 0.01 and 100");
    CHECK(of({"--busiest=h"}) == "--busiest: \"\" is no number; write one between 0.001 and 1e+06");
  }

  TEST_CASE("times are times, in order, and not beside --busiest") {
    for (const char* option : {"--from", "--to"})
      for (const char* wrong : {"noon", "2017-13-01", "2017-10-01T25:00:00"})
        CHECK(of({option, wrong}) ==
              std::string(option) + ": \"" + wrong + "\" is no time; write 2017-10-04, 2017-10-04T23:41:46 or seconds");
    CHECK(of({"--from=5", "--to=5"}) == "--to: is not after --from; name a later time");
    for (const char* other : {"--from=5", "--to=5"})
      CHECK(of({other, "--busiest=8h"}) == "--busiest: not beside --from or --to; leave one of them out");
  }

  TEST_CASE("what is chosen from a list is on it") {
    CHECK(of({"--mapping=best"}) == "--mapping: \"best\" is none; use random or gpus");
    CHECK(of({"--queue=lifo"}) == "--queue: \"lifo\" is no order; use fifo, sjf, backfill or slurm");
    for (const char* wrong : {"3", "1:2", "1:2:3:4:5"})
      CHECK(of({"--mix", wrong}) ==
            std::string("--mix: \"") + wrong + "\" is no mix; write S:M:L or S:M:L:XL, as 3:1:1");
    for (const char* option : {"--objective", "--sweep=objective"})
      CHECK(of({std::string(option) + "=fast"})
                .find("\"fast\" is none; use one of throughput, jct, deadline, fairness") != std::string::npos);
    CHECK(of({"--objective=fairness"}) == "accepted");
    for (const char* wrong : {"1", "1:2:3"})
      CHECK(of({"--deadlines", wrong}) ==
            std::string("--deadlines: \"") + wrong + "\" is no range; write LOW:HIGH, as 0.5:1.5");
    CHECK(of({"--deadlines=x:2"}) == "--deadlines: \"x\" is no number; write one between 0.01 and 1000");
    CHECK(of({"--deadlines=0:2"}) == "--deadlines: must be between 0.01 and 1000");
    CHECK(of({"--deadlines=1:1001"}) == "--deadlines: must be between 0.01 and 1000");
    CHECK(of({"--deadlines=2:1"}) == "--deadlines: the first number must not be above the second");
    CHECK(of({"--deadlines=0.5:1.5"}) == "accepted");
    CHECK(of({"--mix=0:0:0"}) == "--mix: one of the parts must be above zero");
  }

  TEST_CASE("a sweep has a known key, and values that the option would take") {
    CHECK(of({"--sweep=load"}) == "--sweep: \"load\": write KEY=V1,V2,...");
    CHECK(of({"--sweep=load="}) == "--sweep: \"load=\": write KEY=V1,V2,...");
    CHECK(of({"--sweep=color=red"}) ==
          "--sweep: \"color\" cannot be swept; use bandwidth, load, scale, mix, elastic-share, movable, lambda, "
          "short-first, trade, objective, queue, trace, error or seed");
    const struct {
      const char *key, *range, *good, *far;
    } numbers[] = {{"bandwidth", "0.0001 and 100", "1", "0"},  {"load", "0.01 and 100", "1", "0"},
                   {"scale", "1e-06 and 1e+06", "1", "0"},     {"lambda", "0 and 100", "1", "101"},
                   {"elastic-share", "0 and 1", "0.2", "1.1"}, {"short-first", "0 and 4", "1", "5"},
                   {"trade", "0 and 100", "1", "101"},         {"error", "0 and 1", "0.1", "2"},
                   {"movable", "0 and 1", "0.5", "1.1"},       {"seed", "0 and 1e+09", "1", "-1"}};
    const auto moving = [](const std::string& sweep) {
      return usage({"--cluster=cluster-a", "--trace=t.csv", "--policy=espalier", sweep});
    };
    for (const auto& [key, range, good, far] : numbers) {
      const std::string start = std::string("--sweep=") + key + "=" + good + ",";
      CHECK(moving(start + good) == "accepted");
      CHECK(moving(start + "x") == std::string("--sweep ") + key + ": \"x\" is no number; write one between " + range);
      CHECK(moving(start) == std::string("--sweep ") + key + ": \"\" is no number; write one between " + range);
      CHECK(moving(start + far) == std::string("--sweep ") + key + ": must be between " + range);
    }
    CHECK(of({"--sweep=queue=fifo,lifo"}) == "--queue: \"lifo\" is no order; use fifo, sjf, backfill or slurm");
    CHECK(of({"--sweep=mix=3:1:1,2"}) == "--mix: \"2\" is no mix; write S:M:L or S:M:L:XL, as 3:1:1");
    CHECK(of({"--sweep=trace=a.csv,b.csv"}) == "accepted");
    CHECK(of({"--sweep=load=1,2", "--report=r"}) == "--report: not with --sweep; leave one of them out");
  }
}
