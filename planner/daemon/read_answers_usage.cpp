// What trainings used: their allocations as Slurm accounts them, and what was made of these.
#include <algorithm>

#include "planner/daemon/answers_json.hpp"
#include "planner/daemon/clock.hpp"
#include "planner/daemon/read_answers.hpp"

namespace espalier {
namespace {

constexpr int kPage = 200;  // jobs of a user in one answer

}  // namespace

// GPU seconds of allocations are whole seconds between start and end, as sacct's Elapsed is.
Json ReadAnswers::usage_of(const StoredJob& stored, bool with_allocations, const PlannerView& view) {
  const ElasticJob& job = stored.job;
  const double now = clock_seconds();
  Json allocations = Json::array();
  double anchor = 0, extensions = 0, first = 0, last = 0;
  int count = 0, anchor_gpus = 0;
  bool exact = true;
  for (const Store::Allocation& one : store_.allocations(job.id)) {
    if (one.uid != job.uid) continue;  // anybody may write a comment
    const double end = one.ended > 0 ? one.ended : now, seconds = std::max(0.0, end - one.started);
    const bool own = one.job == job.id || one.base;
    (own ? anchor : extensions) += one.gpus * seconds;
    if (own) anchor_gpus = std::max(anchor_gpus, one.gpus);
    else ++count;
    exact = exact && one.exact;
    first = first == 0 ? one.started : std::min(first, one.started);
    last = std::max(last, one.ended);
    if (with_allocations)
      allocations.push_back({{"job", one.job},
                             {"extension", !own},
                             {"base", one.base},
                             {"gpus", one.gpus},
                             {"started", one.started},
                             {"ended", one.ended},
                             {"seconds", seconds},
                             {"exact", one.exact}});
  }
  TrainingUsage training;
  if (const JobView* live = view.job(job.id)) {
    training = live->usage;
    training.report(live->job, now);
  } else if (const auto kept = store_.training(job.id)) {
    training = *kept;
  }
  Json json{{"id", job.id},
            {"uid", job.uid},
            {"name", job.name},
            {"ended", stored.ended},
            {"started", first},
            {"finished", stored.ended ? last : 0},
            {"anchor_gpus", anchor_gpus},
            {"extensions", count},
            {"anchor_gpu_seconds", anchor},
            {"extension_gpu_seconds", extensions},
            {"trained_gpu_seconds", training.trained},
            {"paused_gpu_seconds", training.paused},
            {"exact", exact}};
  if (with_allocations) json["allocations"] = std::move(allocations);
  return json;
}

std::string ReadAnswers::usage(const Asked& asked) {
  const auto& [arguments, view, viewer] = asked;
  if (arguments.contains("user")) {
    const auto uid = number<std::uint32_t>(arguments, "user");
    if (!viewer.sees(uid))
      throw Error("uid " + std::to_string(uid) + ": PrivateData in slurm.conf hides other users' jobs");
    const auto from = arguments.contains("page") ? number<JobId>(arguments, "page") : 0;
    const auto ids = store_.jobs_of(uid, from, kPage + 1);
    Json reply{{"jobs", Json::array()}};
    for (std::size_t i = 0; i < ids.size() && i < static_cast<std::size_t>(kPage); ++i)
      if (const auto stored = store_.job(ids[i])) reply["jobs"].push_back(usage_of(*stored, false, view));
    if (ids.size() > static_cast<std::size_t>(kPage)) reply["next"] = ids.back();
    return text_of(reply);
  }
  const auto id = number<JobId>(arguments, "job");
  const auto stored = store_.job(id);
  if (!stored || !viewer.sees(stored->job.uid))
    throw Error("job " + std::to_string(id) + ": not an elastic job that this planner has seen");
  return text_of({{"jobs", Json::array({usage_of(*stored, true, view)})}});
}

}  // namespace espalier
