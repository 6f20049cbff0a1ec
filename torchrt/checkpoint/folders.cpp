#include "torchrt/checkpoint/folders.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>

#include "planner/core/error.hpp"

namespace espalier::torchrt {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kGeneration = ".g", kUnfinished = ".tmp", kDamaged = ".damaged";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, problem] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (problem != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

// The step of a checkpoint that was set aside.
std::optional<std::int64_t> damaged_step_of(const std::string& name) {
  const std::size_t mark = name.find(kDamaged);
  return mark == std::string::npos ? std::nullopt : step_of(name.substr(0, mark));
}

bool unfinished(const std::string& name) {
  return name.rfind(kPrefix, 0) == 0 && name.size() > kUnfinished.size() &&
         name.compare(name.size() - kUnfinished.size(), kUnfinished.size(), kUnfinished) == 0;
}

struct Writer {
  std::int64_t step = 0;
  int generation = 0;
};

// Of an unfinished folder. One that has another name than those of unfinished_folder() is nobody's.
std::optional<Writer> writer_of(const std::string& name) {
  const std::size_t mark = name.find(kGeneration);
  if (!unfinished(name) || mark == std::string::npos) return std::nullopt;
  const auto step = step_of(name.substr(0, mark));
  Writer writer;
  const char* const number = name.data() + mark + kGeneration.size();
  const auto [end, problem] = std::from_chars(number, name.data() + name.size(), writer.generation);
  if (!step || problem != std::errc() || *end != '.' || writer.generation < 0) return std::nullopt;
  writer.step = *step;
  return writer;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code problem;
  // A directory that cannot be looked at may hold checkpoints: a training must not begin anew over them.
  if (!fs::exists(directory, problem) && !problem) return names;
  if (problem) throw Error("checkpoint directory " + directory + ": cannot be looked at: " + problem.message());
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end; entry.increment(problem))
    names.push_back(entry->path().filename());
  if (problem) throw Error("checkpoint directory " + directory + ": cannot be read: " + problem.message());
  return names;
}

}  // namespace

void remove_checkpoint(const std::string& folder) {
  std::error_code problem;
  fs::remove_all(folder, problem);
  if (problem) throw Error("checkpoint " + folder + ": cannot be removed: " + problem.message());
}

std::string set_aside_damaged(const std::string& directory, std::int64_t step) {
  const std::string folder = checkpoint_folder(directory, step), plain = folder + std::string(kDamaged);
  std::string aside = plain;
  std::error_code problem;
  for (int number = 2; fs::exists(aside, problem); ++number) aside = plain + "." + std::to_string(number);
  fs::rename(folder, aside, problem);
  if (problem) throw Error("checkpoint " + folder + ": cannot be renamed to " + aside + ": " + problem.message());
  return aside;
}

double checkpoint_age(const std::string& directory, std::int64_t step) {
  std::error_code problem;
  const auto written = fs::last_write_time(checkpoint_folder(directory, step) + "/" + kManifestFile, problem);
  if (problem) return 0;
  return std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

std::string checkpoint_folder(const std::string& directory, std::int64_t step) {
  return directory + "/" + std::string(kPrefix) + std::to_string(step);
}

std::string unfinished_folder(const std::string& directory, std::int64_t step, int generation, int attempt) {
  return checkpoint_folder(directory, step) + ".g" + std::to_string(generation) +
         (attempt == 0 ? "" : ".a" + std::to_string(attempt)) + std::string(kUnfinished);
}

std::string part_file(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }
std::string part_manifest(int rank) { return "rank-" + std::to_string(rank) + ".json"; }

std::vector<std::int64_t> checkpoint_steps(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(directory))
    if (const auto step = step_of(name)) steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::vector<std::string> unfinished_folders(const std::string& directory, int first, int end) {
  std::vector<std::string> folders;
  for (const std::string& name : names_in(directory))
    if (const auto writer = writer_of(name); writer && writer->generation >= first && writer->generation < end)
      folders.push_back(directory + "/" + name);
  return folders;
}

void prune_checkpoints(const std::string& directory, std::int64_t newest, int keep, int generation,
                       const std::vector<std::int64_t>& damaged, const std::vector<std::string>& spared) {
  std::string problem;
  // A folder that cannot be removed keeps no other one.
  const auto drop = [&](const std::string& folder) {
    try {
      remove_checkpoint(folder);
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
    }
  };
  for (const std::string& name : names_in(directory)) {
    const std::string folder = directory + "/" + name;
    const auto refused = damaged_step_of(name);
    const auto writer = writer_of(name);
    const bool successors = writer && writer->step > newest && writer->generation > generation;
    const bool abandoned =
        unfinished(name) && !successors && std::find(spared.begin(), spared.end(), folder) == spared.end();
    if (abandoned || (refused && *refused <= newest)) drop(folder);
  }
  int kept = 0;
  for (const std::int64_t step : checkpoint_steps(directory)) {
    // Left by an earlier run: damaged, or newer than the step at which this run resumed.
    if (step > newest) continue;
    const bool bad = step != newest && std::find(damaged.begin(), damaged.end(), step) != damaged.end();
    if (!bad && kept < keep) ++kept;
    else drop(checkpoint_folder(directory, step));
  }
  if (!problem.empty()) throw Error(problem);
}

}  // namespace espalier::torchrt
