// What a check of `espalier doctor` has found.
#pragma once

#include <string>
#include <vector>

namespace espalier::cli::doctor {

enum class Verdict { ok, skipped, warning, fault };
const char* to_string(Verdict verdict);

// What to do: a line for a file, or a command.
struct Remedy {
  std::string file;    // empty: `line` is a command
  std::string line;    // the very line, or what to put into the line that `within` names
  std::string within;  // as in "PartitionName=elastic"; empty: a line of its own
  bool operator==(const Remedy&) const = default;
};

struct Finding {
  Verdict verdict = Verdict::ok;
  std::string found;  // one sentence, without a full stop
  std::vector<Remedy> remedies = {};
  std::string check = {};  // the name of the check; set by judge()
};

inline Finding ok(std::string found) { return {Verdict::ok, std::move(found)}; }
inline Finding skipped(std::string why) { return {Verdict::skipped, std::move(why)}; }
inline Finding warning(std::string found, std::vector<Remedy> remedies = {}) {
  return {Verdict::warning, std::move(found), std::move(remedies)};
}
inline Finding fault(std::string found, std::vector<Remedy> remedies = {}) {
  return {Verdict::fault, std::move(found), std::move(remedies)};
}
inline Remedy command(std::string line) { return {"", std::move(line), ""}; }

}  // namespace espalier::cli::doctor
