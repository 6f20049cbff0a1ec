#include "launcher/job/reports.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "planner/wire/clock.hpp"
#include "planner/wire/links_field.hpp"
#include "planner/wire/movable_message.hpp"

namespace espalier::launcher {
namespace {
constexpr std::chrono::seconds kStatusEvery{1};
}  // namespace

Reports::Reports(wire::Loop& loop, const JobContext& context, std::function<ElasticJob()> state,
                 PlannerLink::Callbacks planner)
    : context_(context),
      state_(std::move(state)),
      soon_(loop, [this] { status(); }),
      link_(loop, context.config.planner_host, context.config.planner_port, context.site.planner_uids, [&] {
        planner.state = [this] {
          ElasticJob job = state_();
          job.profile = profiles_.newest();
          return job;
        };
        return std::move(planner);
      }()) {}

void Reports::status() {
  soon_.forget();
  if (link_.registered()) link_.report(wire::Status{state_()});
}

void Reports::status_after_step() {
  const auto now = wire::steady_now();
  if (now - last_status_ < kStatusEvery) return;
  last_status_ = now;
  auto profile = profiles_.untold();  // a planner that comes later is told it when it registers the job
  if (!link_.registered()) return;
  ElasticJob job = state_();
  job.profile = std::move(profile);
  const bool tells = job.profile.has_value();
  const wire::Frame status = wire::to_frame(wire::Status{std::move(job)});
  link_.report(tells ? wire::with_links(status, profiles_.links()) : status);
}

void Reports::bases(const std::vector<JobId>& held, JobId waits) {
  link_.report(wire::BasesHeld{context_.job, held, {context_.types.begin(), context_.types.end()}, waits});
}

const Profile* Reports::profiled(const wire::Frame& frame, int rank, const Plan& plan, const ModelShape& shape) {
  const std::int64_t before = profiles_.newest() ? profiles_.newest()->step : -1;
  if (const std::string why = profiles_.take(frame, rank, plan, shape); !why.empty())
    spdlog::warn("espalier: launch: {}; it is not passed on", why);
  const auto& newest = profiles_.newest();
  return newest && newest->step != before ? &*newest : nullptr;
}

}  // namespace espalier::launcher
