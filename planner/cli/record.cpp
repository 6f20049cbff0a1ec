#include "planner/cli/record.hpp"

#include <pwd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace espalier::cli {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : separator) + part;
  return all;
}

// "2" when all are 2, else "1+2".
std::string collapsed(const std::vector<int>& values) {
  if (!values.empty() && std::all_of(values.begin(), values.end(), [&](int v) { return v == values[0]; }))
    return std::to_string(values[0]);
  std::vector<std::string> texts;
  for (const int value : values) texts.push_back(std::to_string(value));
  return joined(texts, "+");
}

// Names and reasons come from users. They must not control a terminal or forge a line.
std::string harmless(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}

bool has_stages(const Json& plan) { return plan.is_object() && plan.contains("stages") && !plan["stages"].empty(); }

}  // namespace

std::string format(const Record& record, bool one_line) {
  std::string text;
  for (const Pairs& line : record) {
    if (line.empty()) continue;
    if (!text.empty()) text += one_line ? " " : "\n   ";
    bool first = true;
    for (const auto& [key, value] : line) {
      text += (first ? "" : " ") + key + "=" + harmless(value);
      first = false;
    }
  }
  return text + (one_line ? "\n" : "\n\n");
}

std::string text_or_null(const std::string& text) { return text.empty() ? "(null)" : text; }

std::string number_text(double value, int digits) {
  if (!(value > 0) || !std::isfinite(value)) return "(null)";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string time_text(double seconds) {
  if (!(seconds > 0) || seconds > 1e11) return "(null)";
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm local{};
  ::localtime_r(&whole, &local);
  char date[32], text[48];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &local);
  std::snprintf(text, sizeof text, "%s.%03d", date, static_cast<int>((seconds - std::floor(seconds)) * 1000));
  return text;
}

std::string user_text(std::uint32_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return std::string(entry == nullptr ? "(null)" : entry->pw_name) + "(" + std::to_string(uid) + ")";
}

std::string percent_text(const Json& share) {
  if (!share.is_number()) return "(null)";
  char text[32];
  const double percent = share.get<double>() * 100;
  std::snprintf(text, sizeof text, percent < 10 ? "%.2g%%" : "%.0f%%", percent);
  return text;
}

std::string gpu_list(const std::string& node, const std::vector<int>& gpus) {
  auto sorted = gpus;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    ranges.push_back(std::to_string(sorted[i]) + (last > i ? "-" + std::to_string(sorted[last]) : ""));
    i = last + 1;
  }
  return node + "/" + (sorted.size() == 1 ? ranges[0] : "[" + joined(ranges, ",") + "]");
}

std::string holdings_text(const Json& holdings, bool with_jobs) {
  std::vector<std::string> parts;
  for (const Json& held : holdings)
    parts.push_back((with_jobs ? std::to_string(held.at("job").get<std::uint32_t>()) + ":" : "") +
                    gpu_list(held.at("node").get<std::string>(), held.at("gpus").get<std::vector<int>>()));
  return text_or_null(joined(parts, ","));
}

std::string plan_text(const Json& plan) {
  if (!has_stages(plan)) return "(null)";
  std::vector<int> dp, tp;
  for (const Json& stage : plan["stages"]) {
    dp.push_back(static_cast<int>(stage.at("replicas").size()));
    tp.push_back(stage.at("tp").get<int>());
  }
  return "pp" + std::to_string(dp.size()) + "/dp" + collapsed(dp) + "/tp" + collapsed(tp);
}

std::string layers_text(const Json& plan) {
  if (!has_stages(plan)) return "(null)";
  std::vector<std::string> parts;
  for (const Json& stage : plan["stages"]) parts.push_back(std::to_string(stage.at("layers").get<int>()));
  return joined(parts, "+");
}

std::string ranks_text(const Json& plan) {
  if (!has_stages(plan)) return "(null)";
  std::vector<std::string> parts;
  for (const Json& stage : plan["stages"])
    for (const Json& replica : stage.at("replicas"))
      for (const Json& gpu : replica.at("gpus")) parts.push_back(gpu.get<std::string>());
  return joined(parts, ",");
}

}  // namespace espalier::cli
