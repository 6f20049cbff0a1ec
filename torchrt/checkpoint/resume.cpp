#include "torchrt/checkpoint/resume.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/data_agreement.hpp"

namespace espalier::torchrt {

std::int64_t newest_checkpoint(const std::string& directory, std::int64_t limit, const RankSum& ranks,
                               const std::vector<std::int64_t>& passed_over) {
  double newest = 0;
  std::string problem;
  if (ranks.rank == 0) {
    newest = -1;
    try {
      for (const std::int64_t step : checkpoint_steps(directory))
        if (step < limit && newest < 0 && std::find(passed_over.begin(), passed_over.end(), step) == passed_over.end())
          newest = static_cast<double>(step);
    } catch (const Error& error) {
      problem = error.what();
      newest = -2;
    }
  }
  newest = ranks.sum(newest);
  if (newest == -2)
    throw Error(problem.empty() ? "checkpoint directory " + directory + ": cannot be read by rank 0" : problem);
  return static_cast<std::int64_t>(newest);
}

namespace {

[[noreturn]] void refuse_all(const std::string& directory, std::size_t count) {
  throw Error("checkpoint directory " + directory + ": none of its " + std::to_string(count) +
              " checkpoints is good; restore one, or choose another checkpoint.directory to start anew");
}

struct Attempt {
  std::unique_ptr<CheckpointReader> checkpoint;
  std::string damage;  // empty: this rank found no damage
  // With the configuration or the data; the checkpoint's files were then not verified.
  std::optional<std::string> disagreement;
  std::string changed;  // of the data, where data.changed allows it
};

Attempt open(const Config& config, const std::string& folder, const RankSum& ranks, const DataFiles* files) {
  Attempt attempt;
  try {
    attempt.checkpoint = std::make_unique<CheckpointReader>(folder);
  } catch (const Error& error) {
    attempt.damage = error.what();
    return attempt;
  }
  try {
    const nlohmann::json& facts = attempt.checkpoint->manifest().facts;
    // Who only reads parameters needs the same model, and not the same training.
    if (files) check_facts(facts, config, "checkpoint " + folder);
    else check_model(facts, config, "checkpoint " + folder);
    if (files) attempt.changed = changed_since(facts, "checkpoint " + folder, *files);
    if (!attempt.changed.empty() && !config.data.changed) throw Error(attempt.changed + kRestoreData);
  } catch (const Error& error) {
    attempt.disagreement = error.what();
    return attempt;
  }
  try {
    attempt.checkpoint->verify(ranks.rank, ranks.ranks);
  } catch (const Error& error) {
    attempt.damage = error.what();
  }
  return attempt;
}

// The same on all ranks.
bool agreed_good(const Attempt& attempt, const RankSum& ranks, const std::function<void(const std::string&)>& tell,
                 const std::string& then) {
  // Every rank reads the manifest. When rank 0 finds it damaged, only rank 0 reports it.
  const bool manifest_damaged = ranks.sum(ranks.rank == 0 && !attempt.checkpoint ? 1 : 0) != 0;
  if (!attempt.damage.empty() && (!manifest_damaged || ranks.rank == 0)) tell(attempt.damage + then);
  return ranks.sum(attempt.damage.empty() ? 0 : 1) == 0;
}

}  // namespace

bool is_good_checkpoint(const Config& config, std::int64_t step, const RankSum& ranks,
                        const std::function<void(const std::string&)>& tell, const std::string& then) {
  return agreed_good(open(config, checkpoint_folder(config.checkpoint.directory, step), ranks, nullptr), ranks, tell,
                     then);
}

void set_aside(const std::string& directory, const std::vector<std::int64_t>& damaged,
               const std::function<void(const std::string&)>& tell) {
  for (const std::int64_t step : damaged) {
    try {
      const std::string aside = set_aside_damaged(directory, step);
      tell("checkpoint " + checkpoint_folder(directory, step) + ": is damaged, and was renamed to " + aside);
    } catch (const Error& problem) {
      tell(problem.what());
    }
  }
}

Resumption find_resumption(const Config& config, const RankSum& ranks,
                           const std::function<void(const std::string&)>& tell, const DataFiles* files) {
  Resumption resumption;
  const std::string& directory = config.checkpoint.directory;
  if (directory.empty()) return resumption;
  for (std::int64_t limit = INT64_MAX;;) {
    const std::int64_t step = newest_checkpoint(directory, limit, ranks);
    if (step < 0) {
      if (!resumption.damaged.empty()) refuse_all(directory, resumption.damaged.size());
      return resumption;
    }
    if (!config.checkpoint.resume)
      throw Error("checkpoint directory " + directory + ": holds checkpoints (the newest of step " +
                  std::to_string(step) + ") though checkpoint.resume is false; choose another directory");
    Attempt attempt = open(config, checkpoint_folder(directory, step), ranks, files);
    if (agreed_good(attempt, ranks, tell, "; the one before is tried")) {
      if (attempt.disagreement) throw Error(*attempt.disagreement);
      if (!attempt.changed.empty() && ranks.rank == 0) tell(attempt.changed + kGoesOn);
      resumption.checkpoint = std::move(attempt.checkpoint);
      return resumption;
    }
    resumption.damaged.push_back(step);
    limit = step;
  }
}

}  // namespace espalier::torchrt
