#include "launcher/conform/conform.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <set>
#include <sstream>

#include "launcher/conform/cases.hpp"
#include "launcher/process/execute.hpp"
#include "planner/core/standard_output.hpp"
#include "planner/wire/munge_check.hpp"

namespace espalier::launcher {
namespace {

using namespace conform;

struct Options {
  Settings settings;
  std::set<std::string> only;
  bool brief = false, list = false;
};

double positive_number(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0 && value <= 3600))
    throw Error("conform: " + option + ": \"" + text + "\" is not a number of seconds up to 3600");
  return value;
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  std::size_t at = 0;
  const auto value = [&](const std::string& option) {
    if (++at >= words.size() || words[at] == "--") throw Error("conform: " + option + ": its value is missing");
    return words[at];
  };
  for (; at < words.size() && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    if (word == "--brief") options.brief = true;
    else if (word == "--list") options.list = true;
    else if (word == "--patience") options.settings.patience = positive_number(word, value(word));
    else if (word == "--steps-option") options.settings.steps_option = value(word);
    else if (word == "--only") {
      std::istringstream names(value(word));
      for (std::string name; std::getline(names, name, ',');) options.only.insert(name);
    } else throw Error("conform: \"" + word + "\": unknown option; the program comes after --");
  }
  if (at < words.size()) options.settings.program.assign(words.begin() + static_cast<long>(at) + 1, words.end());
  if (options.settings.program.empty() && !options.list) throw Error("conform: no program given; it comes after --");
  return options;
}

std::vector<Case> chosen(const Options& options) {
  std::vector<Case> all;
  for (auto group : {login_cases(), stream_cases(), start_cases(), running_cases(), change_cases(), recovery_cases()})
    all.insert(all.end(), group.begin(), group.end());
  std::set<std::string> unknown = options.only;
  for (const Case& one : all) unknown.erase(one.name);
  if (!unknown.empty()) throw Error("conform: --only: there is no case \"" + *unknown.begin() + "\"; see --list");
  std::erase_if(all, [&](const Case& one) {
    return (options.brief && !one.brief) || (!options.only.empty() && !options.only.contains(one.name));
  });
  return all;
}

// What the workers write goes to a file meanwhile. The end of it is shown with each case that fails.
class WorkersOutput {
 public:
  WorkersOutput() : file_(std::tmpfile()), out_(::dup(STDOUT_FILENO)), error_(::dup(STDERR_FILENO)) {
    if (file_ == nullptr || out_ < 0 || error_ < 0) throw Error("conform: no temporary file can be made");
    std::fflush(nullptr);
    ::dup2(::fileno(file_), STDOUT_FILENO);
    ::dup2(::fileno(file_), STDERR_FILENO);
    report_ = ::fdopen(out_, "w");
  }
  ~WorkersOutput() {
    std::fflush(nullptr);
    ::dup2(::fileno(report_), STDOUT_FILENO);
    ::dup2(error_, STDERR_FILENO);
    std::fclose(report_);
    ::close(error_);
    std::fclose(file_);
  }
  WorkersOutput(const WorkersOutput&) = delete;
  WorkersOutput& operator=(const WorkersOutput&) = delete;

  std::FILE* report() const { return report_; }
  void forget() {
    if (::ftruncate(::fileno(file_), 0) == 0) ::lseek(::fileno(file_), 0, SEEK_SET);
  }
  void show() const {
    std::string text(8192, '\0');
    const off_t size = ::lseek(::fileno(file_), 0, SEEK_END);
    const ssize_t count =
        ::pread(::fileno(file_), text.data(), text.size(), std::max<off_t>(0, size - static_cast<off_t>(text.size())));
    std::istringstream lines(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(0, count))));
    for (std::string line; std::getline(lines, line);) std::fprintf(report_, "       | %s\n", line.c_str());
  }

 private:
  std::FILE* file_;
  int out_, error_;
  std::FILE* report_ = nullptr;
};

// How many GPUs a replica of the program has: its hello says so. Of a program that says none the cases tell more.
void meet(Stage& stage) {
  try {
    Generation first(stage, 1);
    first.say_hello();
  } catch (const Error&) {
  }
}

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
};

void play(Stage& stage, const Case& one, WorkersOutput& output, Tally& tally) {
  const auto begin = std::chrono::steady_clock::now();
  std::string word = "ok", why;
  output.forget();
  try {
    one.play(stage);
    ++tally.passed;
  } catch (const Skip& skip) {
    word = "skip", why = skip.what();
    ++tally.skipped;
  } catch (const Error& error) {
    word = "FAIL", why = error.what();
    ++tally.failed;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::fprintf(output.report(), "  %-4s %s: %s (%.1f s)%s%s\n", word.c_str(), one.name.c_str(), one.title.c_str(),
               seconds, why.empty() ? "" : "\n       ", why.c_str());
  if (word == "FAIL") output.show();
  std::fflush(output.report());
}

}  // namespace

int play_conformance(const std::vector<std::string>& words, const std::string& self) {
  Options options = parse(words);
  const std::vector<Case> cases = chosen(options);
  if (options.list) {
    for (const Case& one : cases)
      std::printf("%s%s: %s\n", one.name.c_str(), one.brief ? " (brief)" : "", one.title.c_str());
    flush_standard_output();
    return 0;
  }
  if (const int error = execution_error(options.settings.program.front()); error != 0)
    throw Error("conform: " + options.settings.program.front() + ": " + std::strerror(error));
  // Without munged no worker can log in, and every case would fail after its patience without naming it.
  if (const std::string problem = wire::munge_problem(); !problem.empty())
    throw Error("conform: munged does not answer, and workers log in by it: " + problem + "; start munged");
  std::signal(SIGPIPE, SIG_IGN);
  options.settings.launcher = self;
  Tally tally;
  WorkersOutput output;
  Stage stage(options.settings);
  meet(stage);
  for (const Case& one : cases) play(stage, one, output, tally);
  std::fprintf(output.report(), "%d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
  flush_standard_output(output.report());
  return tally.failed == 0 && tally.passed > 0 ? 0 : 1;
}

}  // namespace espalier::launcher
