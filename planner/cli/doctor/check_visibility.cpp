// What slurmctld shows to users.
#include <algorithm>
#include <sstream>

#include "planner/cli/doctor/checks.hpp"

namespace espalier::cli::doctor {
namespace {

// Launchers run as the users of their jobs, and ask slurmctld for its partitions. Those of movable jobs ask for its
// nodes, too.
Finding private_data(const Facts& facts, const Slurm& slurm) {
  std::vector<std::string> hidden;
  std::istringstream words(slurm.setting("PrivateData"));
  for (std::string word; std::getline(words, word, ',');) hidden.push_back(word);
  const auto hides = [&hidden](const char* what) {
    return std::any_of(hidden.begin(), hidden.end(),
                       [what](const std::string& word) { return word == what || word == "all"; });
  };
  const bool partitions = hides("partitions"), nodes = hides("nodes");
  if (!partitions && !nodes) return ok("users may see partitions and nodes");
  std::string rest;
  for (const std::string& word : hidden)
    if (word != "partitions" && word != "nodes" && word != "all") rest += (rest.empty() ? "" : ",") + word;
  const std::vector<Remedy> remedies{{facts.slurm_conf(), "PrivateData=" + (rest.empty() ? "none" : rest), ""}};
  if (partitions) return fault("PrivateData hides partitions from users: jobs run without elasticity", remedies);
  return warning("PrivateData hides nodes from users: movable jobs do not start, and others ask for no GPU type",
                 remedies);
}

}  // namespace

std::span<const Check> visibility_checks() {
  static const Check table[] = {{"private-data", Audience::everyone, private_data}};
  return table;
}

}  // namespace espalier::cli::doctor
