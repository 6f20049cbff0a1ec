#include "planner/cli/arguments.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "planner/cli/job_operand.hpp"

namespace espalier::cli {
namespace {

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value > 0x7fffffff)
    return std::nullopt;
  return value;
}

std::uint32_t count_option(const std::string& option, const std::string& text) {
  const auto parsed = number(text);
  if (!parsed) throw UsageError(option + ": \"" + text + "\" is not a number");
  return *parsed;
}

std::vector<int> gpu_counts(const std::string& text) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const auto count = number(part);
    if (!count || *count == 0) throw UsageError("--gpus: \"" + part + "\" is not a number of GPUs; write 8 or 8,16,32");
    counts.push_back(static_cast<int>(*count));
    begin = end + 1;
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<std::string> file_list(const std::string& text) {
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) throw UsageError("--profiles: \"" + text + "\" names an empty file; write a.json,b.json");
    files.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return files;
}

// Rejects options that only `plan` has on other commands, and options that `plan` lacks on `plan`.
void check_options(const Arguments& arguments) {
  if (!arguments.user.empty() && (arguments.words.empty() || arguments.words[0] != "usage"))
    throw UsageError("--user: only with usage");
  if (arguments.all && (arguments.words.empty() || arguments.words[0] != "forget"))
    throw UsageError("--all: only with forget");
  const bool migrates = !arguments.words.empty() && arguments.words[0] == "migrate";
  if (!migrates && !arguments.type.empty()) throw UsageError("--type: only with migrate");
  if (!migrates && !arguments.nodes.empty()) throw UsageError("--nodes: only with migrate");
  if (!arguments.type.empty() && !arguments.nodes.empty()) throw UsageError("--type: not together with --nodes");
  if (!arguments.plans()) {
    if (!arguments.cluster.empty()) throw UsageError("--cluster: only with plan");
    if (!arguments.gpu_counts.empty()) throw UsageError("--gpus: only with plan");
    if (!arguments.schedule.empty()) throw UsageError("--schedule: only with plan");
    if (!arguments.profiles.empty()) throw UsageError("--profiles: only with plan");
    return;
  }
  if (arguments.limit) throw UsageError("--limit: not with plan");
  if (!arguments.config.empty()) throw UsageError("--config: not with plan, which needs no configuration");
}

}  // namespace

const char* const kUsage =
    "Usage: espalier [OPTION...] COMMAND\n"
    "Shows and controls elastic training jobs.\n"
    "\n"
    "  show jobs                 elastic jobs that run\n"
    "  show job JOBID            one of them, also after its end\n"
    "  show scale JOBID          what it would reach on other numbers of GPUs\n"
    "  show decisions            what the planner decided, oldest first\n"
    "  show decision ID          one decision with everything it weighed\n"
    "  show nodes                nodes, their GPUs and who holds them\n"
    "  show config               the planner's configuration\n"
    "  explain JOBID             why the job runs as it does, and what keeps it from growing\n"
    "  hold JOBID                let the job not grow any more\n"
    "  release JOBID             let it grow again\n"
    "  reclaim JOBID             take its extensions back now\n"
    "  migrate JOBID             move the base of a movable job to idle GPUs: of fewer nodes, of --type, or of "
    "--nodes\n"
    "  show profiles             what earlier jobs taught, newest first\n"
    "  show profile ID           one of them\n"
    "  forget ID|--all           let the planner forget one, or all of yours (root: of everybody)\n"
    "  profile JOBID -- PROGRAM  measure a job that waits, stage by stage, on idle GPUs\n"
    "  usage JOBID               what a training used: allocations, GPU hours held, trained and paused\n"
    "  usage --user=USER         the same of all trainings of a user\n"
    "  ping                      is the planner there?\n"
    "  plan                      the best plans of a job that need not exist; see plan --help\n"
    "  simulate                  what elasticity would do for a cluster; see simulate --help\n"
    "  schedule                  compare, search and draw pipeline schedules; see schedule --help\n"
    "  calibrate                 measure GPUs and links in a Slurm job; see calibrate --help\n"
    "  doctor                    what is wrong at this site, and the lines to add; see doctor --help\n"
    "\n"
    "  -o, --oneliner            one line per record\n"
    "      --json                JSON instead of records\n"
    "      --all                 with forget: all profiles\n"
    "      --job=JOBID           with show decisions: of this job only\n"
    "      --type=TYPE           with migrate: to GPUs of this type\n"
    "      --nodes=LIST          with migrate: to exactly these nodes, as in n[3-4]\n"
    "      --limit=N             with show decisions: the last N (100)\n"
    "  -c, --config=FILE         instead of $ESPALIER_CONF or /etc/espalier/espalier.toml\n"
    "  -V, --version             print the version\n"
    "  -h, --help                print this\n"
    "\n"
    "Exit status: 0 done. 1 the planner refused or cannot be reached, or the configuration has an error; of plan,\n"
    "simulate, schedule and calibrate also a wrong file or no result; of doctor, faults; of profile, no profile job\n"
    "could be submitted. 2 wrong usage; of profile, any error before it submits profile jobs.\n";

const char* const kPlanUsage =
    "Usage: espalier plan --job=FILE --cluster=FILE --gpus=N[,N...] [--schedule=NAME] [-o|--json]\n"
    "       espalier plan --profiles=FILE[,FILE...] --cluster=FILE [-o|--json]\n"
    "The best plan of a job on the first N GPUs of a cluster, with its predicted time and memory.\n"
    "With --profiles: the step time of the plan whose stages were profiled.\n"
    "Needs neither Slurm, except with --cluster=slurm, nor the planner, nor a configuration.\n"
    "\n"
    "      --job=FILE            the model, its training and what was measured of it\n"
    "      --cluster=FILE        nodes, GPUs and switches; or cluster-a, cluster-b, cluster-arena, cluster-arena-a,\n"
    "                            cluster-arena-b, slurm\n"
    "      --gpus=N[,N...]       how many GPUs; the others are compared with the fewest\n"
    "      --schedule=NAME       pipeline schedule instead of the file's; auto: the best for each N\n"
    "      --profiles=FILE,...   what espalier-train --profile-plan printed, one file a stage\n"
    "  -o, --oneliner            one record per N instead of the table and the drawings\n"
    "      --json                JSON, with every figure\n"
    "  -h, --help                print this\n"
    "\n"
    "espalier-plan(1) tells what the files may hold. Exit status: 0 done, 1 no plan or a wrong file, 2 wrong usage.\n";

Arguments parse_arguments(const std::vector<std::string>& arguments) {
  Arguments result;
  std::optional<std::string> job;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    if (word.empty() || word[0] != '-' || word == "-") {
      result.words.push_back(word);
      continue;
    }
    std::optional<std::string> attached;
    if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) {
      attached = word.substr(equals + 1);
      word = word.substr(0, equals);
    }
    const auto value = [&] {
      if (attached) return *std::exchange(attached, std::nullopt);
      if (++i >= arguments.size()) throw UsageError(word + ": needs a value");
      return arguments[i];
    };
    if (word == "-o" || word == "--oneliner") result.one_line = true;
    else if (word == "--json") result.json = true;
    else if (word == "--all") result.all = true;
    else if (word == "--job") job = value();
    else if (word == "--user") result.user = value();
    else if (word == "--limit") result.limit = count_option(word, value());
    else if (word == "--type") result.type = value();
    else if (word == "--nodes") result.nodes = value();
    else if (word == "--cluster") result.cluster = value();
    else if (word == "--schedule") result.schedule = value();
    else if (word == "--profiles") result.profiles = file_list(value());
    else if (word == "--gpus") result.gpu_counts = gpu_counts(value());
    else if (word == "-c" || word == "--config") result.config = value();
    else if (word == "-V" || word == "--version") result.version = true;
    else if (word == "-h" || word == "--help") result.help = true;
    else throw UsageError(word + ": no such option");
    if (attached) throw UsageError(word + ": takes no value");
  }
  if (job && result.plans()) result.job_file = *job;
  else if (job && !names_job(*job)) throw UsageError("--job: \"" + *job + "\" is not a job id");
  else if (job) result.job = *job;
  check_options(result);
  return result;
}

std::uint32_t id_operand(const Arguments& arguments, std::size_t at, const std::string& what) {
  if (arguments.words.size() <= at) throw UsageError(arguments.words.back() + ": needs " + what);
  const auto id = number(arguments.words[at]);
  if (!id || *id == 0) throw UsageError("\"" + arguments.words[at] + "\": is not " + what);
  return *id;
}

void expect_words(const Arguments& arguments, std::size_t count) {
  if (arguments.words.size() > count) throw UsageError("\"" + arguments.words[count] + "\": one operand too many");
}

}  // namespace espalier::cli
