#include "planner/cli/schedule_arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "planner/cli/arguments.hpp"
#include "planner/core/pipeline/generate.hpp"

namespace espalier::cli {
namespace {

constexpr int kMostRanks = 1024, kMostMicroBatches = 4096, kMostChunks = 64, kMostActions = 1 << 22;

// "1f1b (one forward, one backward), ...".
std::string described_kinds() {
  std::string text;
  for (const auto& one : pipeline::generators())
    text += (text.empty() ? "" : "; ") + std::string(one.name) + " (" + one.summary + ")";
  return text;
}

std::vector<std::string> chosen_kinds(const std::vector<std::string>& words) {
  std::vector<std::string> kinds;
  for (const std::string& word : words) {
    if (word == "all") {
      for (const auto& one : pipeline::generators()) kinds.emplace_back(one.name);
      continue;
    }
    try {
      pipeline::generator(word);
    } catch (const Error& error) {
      throw UsageError(std::string("--kind: ") + error.what());
    }
    kinds.push_back(word);
  }
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (std::find(kinds.begin(), kinds.begin() + static_cast<std::ptrdiff_t>(i), kinds[i]) !=
        kinds.begin() + static_cast<std::ptrdiff_t>(i))
      throw UsageError("--kind: " + kinds[i] + " is named twice; name it once");
  return kinds;
}

void expect_positive(const char* option, const std::vector<double>& values, double low) {
  for (const double value : values)
    if (!std::isfinite(value) || value < low || value > 1e12)
      throw UsageError(std::string(option) + ": every value must be between " + (low > 0 ? "1e-9" : "0") + " and 1e12");
}

// CLI::Range takes "nan", which is neither below nor above.
void expect_number(const char* option, double value) {
  if (!std::isfinite(value)) throw UsageError(std::string(option) + ": must be a number");
}

void check_values(const ScheduleArguments& arguments) {
  expect_number("--effort", arguments.effort);
  expect_number("--freed-by-input", arguments.freed_by_input);
  expect_positive("--forward", arguments.forward, 1e-9);
  expect_positive("--backward-input", arguments.backward_input, 1e-9);
  expect_positive("--backward-weight", arguments.backward_weight, 1e-9);
  expect_positive("--backward", arguments.backward, 1e-9);
  expect_positive("--activation", arguments.activation, 0);
  expect_positive("--memory", arguments.memory, 1e-9);
  expect_positive("--hop", {arguments.hop}, 0);
}

bool takes_job(const ScheduleArguments& arguments) { return arguments.job > 0 || !arguments.profile.empty(); }

void check_shape(const ScheduleArguments& arguments) {
  if (takes_job(arguments)) return;
  if (!arguments.file.empty()) {
    if (arguments.ranks > 0 || arguments.micro_batches > 0 || arguments.chunks > 0)
      throw UsageError(
          "--file: tells ranks, micro-batches and chunks itself; leave --ranks, --micro-batches and --chunks out");
    if (!arguments.kinds.empty()) throw UsageError("--file: not beside --kind; leave one of them out");
    return;
  }
  if (arguments.ranks == 0) throw UsageError("schedule: needs --ranks=N, or --file=CSV");
  if (arguments.micro_batches == 0) throw UsageError("schedule: needs --micro-batches=N");
  const auto actions = 3LL * arguments.ranks * arguments.micro_batches * std::max(arguments.chunks, 2);
  if (actions > kMostActions)
    throw UsageError("schedule: ranks x micro-batches x chunks is too large; at most " +
                     std::to_string(kMostActions / 3) + " of them together");
  if (arguments.chunks == 0) return;
  std::string fixed;
  for (const std::string& kind : arguments.kinds) {
    const int needed = pipeline::generator(kind).chunks_per_rank;
    if (needed == 0 || needed == arguments.chunks) return;
    fixed += (fixed.empty() ? "" : ", ") + kind + " has " + std::to_string(needed);
  }
  if (!fixed.empty() && !arguments.search) throw UsageError("--chunks: " + fixed + " on each rank; leave --chunks out");
}

}  // namespace

std::optional<ScheduleArguments> parse_schedule(const std::vector<std::string>& words, std::string& help) {
  ScheduleArguments result;
  std::vector<std::string> kinds;
  CLI::App app("Compares pipeline schedules: time, bubble and memory of one training step, and draws them.",
               "espalier schedule");
  app.add_option("--ranks", result.ranks, "pipeline ranks")->check(CLI::Range(1, kMostRanks));
  app.add_option("--micro-batches", result.micro_batches, "of a step")->check(CLI::Range(1, kMostMicroBatches));
  app.add_option("--kind", kinds,
                 "one or several, or all; all by default, none with --search or --file: " + described_kinds())
      ->delimiter(',');
  app.add_option("--chunks", result.chunks, "on each rank, of the kinds that can have any number (interleaved: 2)")
      ->check(CLI::Range(1, kMostChunks));
  app.add_option("--file", result.file, "read a schedule: CSV of torch.distributed.pipelining, one row a rank");
  const auto job = app.add_option("--job", result.job, "ranks, micro-batches and costs are those of this elastic job")
                       ->check(CLI::Range(JobId{1}, JobId{0xfffffffe}));
  const auto profile =
      app.add_option("--profile", result.profile, "the same from a file: the output of espalier show job JOBID --json");
  job->excludes(profile);
  app.add_flag("--search", result.search, "search for a faster schedule within --memory");
  app.add_option("--effort", result.effort, "of the search: a factor on its work (1)")->check(CLI::Range(0.0, 1000.0));
  app.add_option("--forward", result.forward,
                 "time of F on one micro-batch: one value, or one a rank, or one a chunk (1)")
      ->delimiter(',');
  app.add_option("--backward-input", result.backward_input, "the same of I, the gradients of inputs (1)")
      ->delimiter(',');
  app.add_option("--backward-weight", result.backward_weight, "the same of W, the gradients of parameters (1)")
      ->delimiter(',');
  app.add_option("--backward", result.backward, "the same of B, both at once; default: I and W together")
      ->delimiter(',');
  app.add_option("--activation", result.activation, "memory of the activations of one micro-batch (1)")->delimiter(',');
  app.add_option("--freed-by-input", result.freed_by_input, "share of the activations that I frees already (0)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--hop", result.hop, "time of a message from one rank to another (0)");
  app.add_option("--memory", result.memory,
                 "limit of activations, in the unit of --activation: one value or one a rank")
      ->delimiter(',');
  app.add_flag("--draw", result.draw, "draw the schedules as text");
  app.add_option("--svg", result.svg, "write a drawing of the schedules to this file");
  app.add_option("--csv", result.csv, "write the schedule to this file, for torch.distributed.pipelining to load");
  app.add_flag("--json", result.json, "JSON, with figures of every rank");
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    help =
        app.help() + "\nespalier(1) tells more. Exit status: 0 done, 1 no schedule or a wrong file, 2 wrong usage.\n";
    return std::nullopt;
  } catch (const CLI::ParseError& wrong) {
    throw UsageError(std::string("schedule: ") + wrong.what());
  }
  result.kinds = chosen_kinds(kinds);
  if (takes_job(result)) {
    for (const char* option : {"--ranks", "--micro-batches", "--file", "--forward", "--backward-input",
                               "--backward-weight", "--backward", "--activation", "--hop"})
      if (app.count(option) > 0)
        throw UsageError(std::string(job->count() > 0 ? "--job" : "--profile") + ": tells " + option +
                         " itself; leave " + option + " out");
  }
  if (result.kinds.empty() && result.file.empty() && !result.search) result.kinds = chosen_kinds({"all"});
  check_values(result);
  check_shape(result);
  return result;
}

}  // namespace espalier::cli
