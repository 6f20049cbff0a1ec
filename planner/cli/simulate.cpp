// `espalier simulate`: reads the files, simulates and prints.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "planner/cli/commands.hpp"
#include "planner/cli/simulate_study.hpp"

namespace espalier::cli {
namespace {

// A progress line on standard error, redrawn. Shown only on a terminal.
class Bar {
 public:
  explicit Bar(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) != 0) {}
  ~Bar() {
    if (shown_ && drawn_) std::fputs("\r\033[K", stderr);
  }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  void draw(const std::string& what, double share) {
    constexpr int kWidth = 40;
    const int percent = static_cast<int>(100 * share);
    if (!shown_ || (percent == percent_ && what == what_)) return;
    const auto full = static_cast<std::size_t>(kWidth * share);
    const std::string text = fmt::format("\r\033[K{:<12} [{}{}] {:3d}%", what, std::string(full, '#'),
                                         std::string(kWidth - full, '.'), percent);
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
    percent_ = percent;
    what_ = what;
  }

 private:
  const bool shown_;
  bool drawn_ = false;
  int percent_ = -1;
  std::string what_;
};

// Names come from traces, which may hold any bytes.
std::string printed(const nlohmann::json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string simulate(const std::vector<std::string>& words) {
  std::string help;
  const auto parsed = parse_simulate(words, help);
  if (!parsed) return help;
  Bar bar(parsed->quiet);
  const auto progress = [&bar](const std::string& what, double share) { bar.draw(what, share); };
  if (!parsed->sweep) {
    const Study study = run_study(*parsed, progress);
    std::string text = parsed->json ? printed(study_json(study)) : study_table(study);
    if (!parsed->report.empty()) {
      const std::string page = write_report(study, parsed->report);
      if (!parsed->json) text += "\n" + page + "\n";
    }
    return text;
  }
  std::vector<Study> studies;
  for (const std::string& value : parsed->sweep->values) {
    SimulateArguments one = *parsed;
    set_swept(one, parsed->sweep->key, value);
    studies.push_back(
        run_study(one, [&](const std::string& what, double share) { progress(value + " " + what, share); }));
  }
  if (!parsed->json) return sweep_table(*parsed->sweep, studies);
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t i = 0; i < studies.size(); ++i) {
    all.push_back(study_json(studies[i]));
    all.back()[parsed->sweep->key] = parsed->sweep->values[i];
  }
  return printed({{"sweep", parsed->sweep->key}, {"studies", all}});
}

}  // namespace espalier::cli
