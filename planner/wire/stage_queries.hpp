// The questions by which stages of a job that waits are profiled (espalier profile). All of them are a Query with JSON
// arguments; espalierd knows the asking user from the connection. Plain.
//
// stage_places {job[, type][, profile_job]}: where profile jobs may be submitted; `profile_job` is about to end.
//     -> {places: [{type, node, cpus, memory_mb, minutes, idle, grant}]}
// stage_wait {job}: -> {waits}: whether the job still waits
// stage_plans {job, profile_job, description[, max][, accuracy]}: what `profile_job` is to measure on its GPU.
//     -> {type, known: whether such jobs were measured there, plans: [{plan, stages: [{stage, replica}]}]}
// stage_report {as stage_plans, profiles}: one plan's StageProfiles. -> {foreseen: [text]}
//
// A reply with "again" says that Slurm has not yet told espalierd of the job or of the profile job: ask once more.
//
// A profile job is a Slurm job in the partition for extensions, with the comment of an extension of the waiting job,
// and behind it the word kStageProfileWord with the GPU type that it measures.
#pragma once

#include <string>

namespace espalier::wire {

inline constexpr const char* kStageProfileWord = "stage-profile:";

// The GPU type in the comment of a profile job; empty: it is no profile job's.
inline std::string profiled_type(const std::string& comment) {
  const auto space = comment.find(' ');
  const std::string word = kStageProfileWord;
  if (!comment.starts_with("espalier:ext:") || space == std::string::npos ||
      comment.compare(space + 1, word.size(), word) != 0)
    return "";
  const auto begin = space + 1 + word.size();
  return comment.substr(begin, comment.find(' ', begin) - begin);
}

// How often a profile job of one waiting job is submitted for one GPU type: preempted ones come back.
inline constexpr int kMostStageTries = 4;

}  // namespace espalier::wire
