// What trainings used: `espalier usage`.
#include <pwd.h>

#include <charconv>
#include <cmath>

#include "planner/cli/ask.hpp"
#include "planner/cli/commands.hpp"
#include "planner/cli/job_operand.hpp"
#include "planner/cli/records.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli {
namespace {

std::uint32_t uid_of(const std::string& user) {
  std::uint32_t uid = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), uid);
  if (error == std::errc() && end == user.data() + user.size()) return uid;
  const passwd* entry = ::getpwnam(user.c_str());
  if (entry == nullptr) throw Error("user " + user + ": not known on this host");
  return entry->pw_uid;
}

std::string whole(double value) { return std::to_string(std::llround(value)); }

std::string hours(double gpu_seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", gpu_seconds / 3600);
  return text;
}

// As sacct writes Elapsed: "01:02:03", "2-01:02:03".
std::string elapsed(double seconds) {
  const long long all = std::llround(seconds), days = all / 86400;
  char text[64];
  std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld", all / 3600 % 24, all / 60 % 60, all % 60);
  return (days > 0 ? std::to_string(days) + "-" : "") + text;
}

std::string moment(double seconds) {
  std::string text = time_text(seconds);
  if (const auto point = text.find('.'); point != std::string::npos) text.erase(point);  // Slurm's times are whole
  return seconds > 0 ? text : "Unknown";
}

struct Sums {
  double anchor = 0, extensions = 0, trained = 0, paused = 0;
  void add(const Json& usage) {
    anchor += usage.at("anchor_gpu_seconds").get<double>();
    extensions += usage.at("extension_gpu_seconds").get<double>();
    trained += usage.at("trained_gpu_seconds").get<double>();
    paused += usage.at("paused_gpu_seconds").get<double>();
  }
  // What no pause and no plan had: starts, ends, and extensions that wait to be used or to be given back.
  double other() const { return std::max(0.0, anchor + extensions - trained - paused); }
  void lines(Record& record) const {
    record.push_back({{"AnchorGPUSeconds", whole(anchor)},
                      {"ExtensionGPUSeconds", whole(extensions)},
                      {"HeldGPUSeconds", whole(anchor + extensions)}});
    record.push_back({{"HeldGPUHours", hours(anchor + extensions)},
                      {"TrainedGPUHours", hours(trained)},
                      {"PausedGPUHours", hours(paused)},
                      {"OtherGPUHours", hours(other())}});
  }
};

}  // namespace

Record usage_record(const Json& usage) {
  Sums sums;
  sums.add(usage);
  Record record{
      {{"JobId", std::to_string(usage.at("id").get<std::uint32_t>())},
       {"Name", text_or_null(usage.at("name").get<std::string>())},
       {"UserId", user_text(usage.at("uid").get<std::uint32_t>())},
       {"State", usage.at("ended").get<bool>() ? "ENDED" : "RUNNING"}},
      {{"Start", moment(usage.at("started").get<double>())}, {"End", moment(usage.at("finished").get<double>())}},
      {{"AnchorGPUs", std::to_string(usage.at("anchor_gpus").get<int>())},
       {"Extensions", std::to_string(usage.at("extensions").get<int>())}}};
  sums.lines(record);
  if (!usage.at("exact").get<bool>()) record.push_back({{"Exact", "No"}});
  return record;
}

Record allocation_record(const Json& one) {
  Record record{{{"JobId", std::to_string(one.at("job").get<std::uint32_t>())},
                 {"Kind", one.at("extension").get<bool>() ? "extension"
                          : one.value("base", false)      ? "base"
                                                          : "anchor"},
                 {"GPUs", std::to_string(one.at("gpus").get<int>())},
                 {"Start", moment(one.at("started").get<double>())},
                 {"End", moment(one.at("ended").get<double>())},
                 {"Elapsed", elapsed(one.at("seconds").get<double>())}}};
  if (!one.at("exact").get<bool>()) record[0].push_back({"Exact", "No"});
  return record;
}

Record usage_sum_record(const Json& jobs) {
  Sums sums;
  for (const Json& usage : jobs) sums.add(usage);
  Record record{{{"Trainings", std::to_string(jobs.size())}}};
  sums.lines(record);
  return record;
}

std::string usage(const Arguments& arguments, const wire::Config& config) {
  Json question = Json::object();
  if (!arguments.user.empty()) {
    expect_words(arguments, 1);
    question["user"] = uid_of(arguments.user);
  } else {
    if (arguments.words.size() < 2) throw UsageError("usage: needs a job id, or --user=USER");
    question["job"] = job_operand(arguments, 1);
    expect_words(arguments, 2);
  }
  const Json reply = ask(config, "usage", question);
  if (arguments.json) return reply.dump(2) + "\n";
  std::string text;
  for (const Json& one : reply.at("jobs")) {
    text += format(usage_record(one), arguments.one_line);
    for (const Json& allocation : one.value("allocations", Json::array()))
      text += (arguments.one_line ? "" : "   ") + format(allocation_record(allocation), true);
  }
  if (arguments.user.empty()) return text;
  if (reply.at("jobs").empty()) return "No elastic training of this user is known\n";
  return text + format(usage_sum_record(reply.at("jobs")), arguments.one_line);
}

}  // namespace espalier::cli
