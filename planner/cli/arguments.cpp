#include "planner/cli/arguments.hpp"

#include <charconv>
#include <utility>

namespace espalier::cli {
namespace {

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value > 0x7fffffff)
    return std::nullopt;
  return value;
}

}  // namespace

const char* const kUsage =
    "Usage: espalier [OPTION...] COMMAND\n"
    "Shows and controls elastic training jobs.\n"
    "\n"
    "  show jobs                 elastic jobs that run\n"
    "  show job JOBID            one of them, also after its end\n"
    "  show decisions            what the planner decided, oldest first\n"
    "  show decision ID          one decision with everything it weighed\n"
    "  show nodes                nodes, their GPUs and who holds them\n"
    "  show config               the planner's configuration\n"
    "  explain JOBID             why the job runs as it does, and what keeps it from growing\n"
    "  hold JOBID                let the job not grow any more\n"
    "  release JOBID             let it grow again\n"
    "  reclaim JOBID             take its extensions back now\n"
    "  ping                      is the planner there?\n"
    "\n"
    "  -o, --oneliner            one line per record\n"
    "      --json                JSON instead of records\n"
    "      --job=JOBID           with show decisions: of this job only\n"
    "      --limit=N             with show decisions: the last N (100)\n"
    "  -c, --config=FILE         instead of $ESPALIER_CONF or /etc/espalier/espalier.toml\n"
    "  -V, --version             print the version\n"
    "  -h, --help                print this\n"
    "\n"
    "Exit status: 0 done, 1 the planner refused or cannot be reached, 2 wrong usage.\n";

Arguments parse_arguments(const std::vector<std::string>& arguments) {
  Arguments result;
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
    const auto count = [&] {
      const std::string text = value();
      const auto parsed = number(text);
      if (!parsed) throw UsageError(word + ": \"" + text + "\" is not a number");
      return parsed;
    };
    if (word == "-o" || word == "--oneliner") result.one_line = true;
    else if (word == "--json") result.json = true;
    else if (word == "--job") result.job = count();
    else if (word == "--limit") result.limit = count();
    else if (word == "-c" || word == "--config") result.config = value();
    else if (word == "-V" || word == "--version") result.version = true;
    else if (word == "-h" || word == "--help") result.help = true;
    else throw UsageError(word + ": no such option");
    if (attached) throw UsageError(word + ": takes no value");
  }
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
