#include "torchrt/checkpoint/resume.hpp"

#include <algorithm>

#include "planner/core/error.hpp"
#include "torchrt/checkpoint/facts.hpp"
#include "torchrt/checkpoint/folders.hpp"
#include "torchrt/data_agreement.hpp"
#include "torchrt/unreadable_error.hpp"

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
  std::string damage;      // empty: this rank found no damage
  std::string unreadable;  // why this rank could not look for damage everywhere; empty: it could
  // With the configuration or the data; the checkpoint's files were then not verified.
  std::optional<std::string> disagreement;
  std::string changed;  // of the data, where data.changed allows it
};

// Empty text: `work` met no Error. `unreadable` and `damage` get the Error's words.
void look(Attempt& attempt, const std::function<void()>& work) {
  try {
    work();
  } catch (const UnreadableError& error) {
    attempt.unreadable = error.what();
  } catch (const Error& error) {
    attempt.damage = error.what();
  }
}

Attempt open(const Config& config, const std::string& folder, const RankSum& ranks, const DataFiles* files) {
  Attempt attempt;
  look(attempt, [&] { attempt.checkpoint = std::make_unique<CheckpointReader>(folder); });
  if (!attempt.checkpoint) return attempt;
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
  look(attempt, [&] { attempt.checkpoint->verify(ranks.rank, ranks.ranks); });
  return attempt;
}

struct Agreed {
  CheckpointIs is = CheckpointIs::good;  // the same on all ranks
  std::string told;                      // what this rank has to report; empty: nothing
};

// Where one rank finds damage and another one cannot read, the latter counts: nothing may be done to the files while
// the file system fails.
Agreed agree(const Attempt& attempt, const RankSum& ranks) {
  // Every rank reads the manifest. When rank 0 finds it bad, only rank 0 reports it.
  const bool manifest_bad = ranks.sum(ranks.rank == 0 && !attempt.checkpoint ? 1 : 0) != 0;
  const bool unreadable = ranks.sum(attempt.unreadable.empty() ? 0 : 1) != 0;
  const bool damaged = ranks.sum(attempt.damage.empty() ? 0 : 1) != 0;
  Agreed agreed;
  if (unreadable) agreed.is = CheckpointIs::unreadable;
  else if (damaged) agreed.is = CheckpointIs::damaged;
  if (!manifest_bad || ranks.rank == 0) agreed.told = attempt.unreadable.empty() ? attempt.damage : attempt.unreadable;
  return agreed;
}

}  // namespace

CheckpointIs look_at_checkpoint(const Config& config, std::int64_t step, const RankSum& ranks,
                                const std::function<void(const std::string&)>& tell, const std::string& then) {
  const std::string folder = checkpoint_folder(config.checkpoint.directory, step);
  const Agreed found = agree(open(config, folder, ranks, nullptr), ranks);
  if (!found.told.empty()) tell(found.told + then);
  return found.is;
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
    const std::string folder = checkpoint_folder(directory, step);
    Attempt attempt = open(config, folder, ranks, files);
    const Agreed found = agree(attempt, ranks);
    if (!found.told.empty()) tell(found.told + (found.is == CheckpointIs::damaged ? "; the one before is tried" : ""));
    if (found.is == CheckpointIs::unreadable)
      throw Error("checkpoint " + folder +
                  ": a rank cannot read it now, but it may be good, so no older one is used in its place; look at the "
                  "file system of checkpoint.directory, then start again");
    if (found.is == CheckpointIs::good) {
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
