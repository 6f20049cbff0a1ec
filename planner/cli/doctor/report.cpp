#include "planner/cli/doctor/report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace espalier::cli::doctor {
namespace {

// Some texts come from others, as a partition's name: none may control a terminal or forge a line.
std::string harmless(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return text;
}

std::string remedy_text(const Remedy& remedy) {
  if (remedy.file.empty()) return "run: " + remedy.line;
  return remedy.file + (remedy.within.empty() ? "" : ", in " + remedy.within) + ": " + remedy.line;
}

bool unwell(const Finding& finding) { return finding.verdict == Verdict::warning || finding.verdict == Verdict::fault; }

}  // namespace

std::string report_text(const std::vector<Finding>& findings) {
  std::string text;
  std::array<int, 4> count{};
  for (const Finding& finding : findings) {
    char head[64];
    std::snprintf(head, sizeof head, "%-8s %-18s ", to_string(finding.verdict), finding.check.c_str());
    text += head + harmless(finding.found) + "\n";
    if (unwell(finding))
      for (const Remedy& remedy : finding.remedies) text += std::string(11, ' ') + harmless(remedy_text(remedy)) + "\n";
    ++count[static_cast<std::size_t>(finding.verdict)];
  }
  char tail[128];
  std::snprintf(tail, sizeof tail, "%zu checks: %d ok, %d skipped, %d warnings, %d faults\n", findings.size(), count[0],
                count[1], count[2], count[3]);
  return text + tail;
}

std::string report_json(const std::vector<Finding>& findings, const Facts& facts) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    Json remedies = Json::array();
    if (unwell(finding))
      for (const Remedy& remedy : finding.remedies)
        remedies.push_back({{"file", remedy.file}, {"line", remedy.line}, {"within", remedy.within}});
    list.push_back({{"name", finding.check},
                    {"verdict", to_string(finding.verdict)},
                    {"found", finding.found},
                    {"remedies", remedies}});
  }
  const Json whole{{"host", facts.host},
                   {"administrator", facts.administrator},
                   {"verdict", to_string(worst(findings))},
                   {"checks", list}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string fix_plan(const std::vector<Finding>& findings) {
  struct File {
    std::string path;
    std::vector<const Remedy*> remedies;
  };
  std::vector<File> files;
  for (const Finding& finding : findings) {
    if (!unwell(finding)) continue;
    for (const Remedy& remedy : finding.remedies) {
      auto file = std::find_if(files.begin(), files.end(), [&](const File& f) { return f.path == remedy.file; });
      if (file == files.end()) file = files.insert(files.end(), File{remedy.file, {}});
      const auto same = [&](const Remedy* other) { return *other == remedy; };
      if (std::none_of(file->remedies.begin(), file->remedies.end(), same)) file->remedies.push_back(&remedy);
    }
  }
  std::stable_partition(files.begin(), files.end(), [](const File& file) { return !file.path.empty(); });
  std::string text;
  for (File& file : files) {
    text +=
        (text.empty() ? "" : "\n") + std::string("# ") + (file.path.empty() ? "commands" : harmless(file.path)) + "\n";
    // Lines of their own first: what follows a heading belongs into the line that it names.
    std::stable_sort(file.remedies.begin(), file.remedies.end(),
                     [](const Remedy* a, const Remedy* b) { return a->within < b->within; });
    std::string within;
    for (const Remedy* remedy : file.remedies) {
      if (remedy->within != within) text += "# into " + harmless(remedy->within) + "\n";
      within = remedy->within;
      text += harmless(remedy->line) + "\n";
    }
  }
  return text;
}

Verdict worst(const std::vector<Finding>& findings) {
  Verdict most = Verdict::ok;
  for (const Finding& finding : findings)
    if (finding.verdict != Verdict::skipped) most = std::max(most, finding.verdict);
  return most;
}

}  // namespace espalier::cli::doctor
