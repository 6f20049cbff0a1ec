#include "launcher/base/bases.hpp"

#include <spdlog/spdlog.h>

#include <utility>

#include "launcher/base/base_request.hpp"
#include "launcher/slurm/absent_keeper.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kWatch{5000};
// The longest time that the base before is held beside the present one, e.g. with a program that places no copies.
constexpr wire::Loop::Milliseconds kBothHeld{60000};
}  // namespace

Bases::Bases(wire::Loop& loop, BlockingThread& slurm, const JobContext& context,
             const std::vector<std::string>& environment, Callbacks callbacks)
    : loop_(loop),
      context_(context),
      callbacks_(std::move(callbacks)),
      current_(BaseTime(context.ends, context.base_minutes, context.base_most_minutes)),
      jobs_(loop, slurm, context, current_.time(), place_in(environment), of_jobs()),
      first_(loop, slurm, context, environment, current_, jobs_, {callbacks_.refused, callbacks_.changed}),
      second_(loop, slurm, context, environment, current_, first_, jobs_,
              {callbacks_.second_failed, callbacks_.smaller_failed, callbacks_.changed}),
      before_(loop, [this](JobId id) { jobs_.release(id); }),
      inheritance_(
          loop, slurm, context, jobs_,
          {callbacks_.suits, [this](JobId id, const BaseShape& shape) { first_.take_over(id, shape); },
           [this](JobId id) { before_.hold(id, kBothHeld); }, [this](JobId id) { go_on(id); }, callbacks_.changed}),
      next_launcher_(slurm, context, [this] { callbacks_.superseded(); }) {}

BaseJobs::Callbacks Bases::of_jobs() {
  BaseJobs::Callbacks on;
  on.came = callbacks_.came;
  on.leaves = callbacks_.leaves;
  on.changed = callbacks_.changed;
  on.granted = [this](JobId id) { granted(id); };
  on.ended = [this](JobId id, const std::string& why) { ended(id, why); };
  on.waits = [this](JobId id, bool limited) { second_.still_waits(id, limited); };
  on.lost_when_completing = [this](JobId id) { return id == second_.id(); };
  return on;
}

void Bases::start() {
  if (const std::string words = cut_short(context_, std::time(nullptr)); !words.empty())
    spdlog::warn("espalier: launch: {}", words);
  watch_ = loop_.every(kWatch, [this] { look(); });
  inheritance_.look();
}

// On the base that an earlier launcher has left. 0: there is none of use.
void Bases::go_on(JobId left) {
  if (left == 0) return go_on_with_first();
  const BaseJobs::Base& base = jobs_.at(left);
  const int gpus = base.shape.nodes * base.shape.gpus_per_node;
  current_.take(left, base.ends);
  callbacks_.changed();
  callbacks_.taken_over(base.holdings, base.nodes, inheritance_.continuation(), inheritance_.take_extensions());
  // It is a smaller one: the job still waits for the base.
  if (context_.base_gpus > context_.min_gpus && gpus < context_.base_gpus) return go_on_with_first();
  first_.give_back_waiting();
}

// Training is on a base that was left, or on none.
void Bases::go_on_with_first() {
  if (first_.waits() == 0) return first_.submit();
  if (jobs_.at(first_.waits()).granted) granted_first();
  else jobs_.ask(first_.waits());
}

void Bases::start_smaller(const std::vector<ExtensionRequest>& nodes) {
  if (waits() == 0) throw Error("its base does not wait, or a smaller one is there already");
  second_.acquire(nodes);
}

void Bases::saw(const wire::KeeperHello& hello) {
  jobs_.saw(hello);
  if (hello.continuation) inheritance_.heard(*hello.continuation);
}

void Bases::look() {
  next_launcher_.look();
  jobs_.ask_about_all();
  // Training may not have begun when it arrived, or nothing may have happened since that could have moved it there.
  if (!ending_ && !arrived_holdings().empty()) callbacks_.arrived();
}

void Bases::granted(JobId id) {
  if (inheritance_.came(id)) return;
  if (id == first_.waits() && inheritance_.complete()) return granted_first();  // else once one is chosen
  if (!second_.granted(id)) return;
  if (current_.id() != 0) return callbacks_.second_granted();
  const BaseJobs::Base& base = jobs_.at(id);
  current_.take(second_.take(), base.ends);
  callbacks_.changed();
  callbacks_.smaller_granted(base.holdings, base.nodes);
}

void Bases::granted_first() {
  const JobId id = first_.waits();
  first_.granted();
  if (current_.id() != 0) return callbacks_.arrived();
  second_.fail("the base that waited has been granted");  // a smaller one, if there is one
  const BaseJobs::Base& base = jobs_.at(id);
  current_.take(id, base.ends);
  callbacks_.changed();
  callbacks_.granted(base.holdings, base.nodes);
}

void Bases::promote(wire::Loop::Milliseconds longer) {
  if (second_.id() == 0) return;
  const JobId id = second_.take();
  if (id == first_.arrived()) first_.moved();
  before_.hold(current_.take(id, jobs_.at(id).ends), kBothHeld + longer);
  callbacks_.changed();
}

// The base has ended without this object's doing.
void Bases::ended(JobId id, const std::string& why) {
  const bool first = first_.ended(id), runs = current_.ended(id), second = second_.ended(id);
  before_.ended(id);
  jobs_.release(id);
  if (ending_ || (first && !inheritance_.complete()) || inheritance_.ended(id)) return;
  // One that an earlier launcher has submitted has a deadline of that time.
  if (first && jobs_.at(id).past_deadline) return first_.submit();
  if (first && jobs_.at(id).unseen && first_.submit_anew(id)) return;
  if (first)
    return first_.refused(why + (current_.id() == 0 ? " before the training could start" : " while it waited"));
  if (runs) return callbacks_.lost(why);
  if (second) second_.lost(why);
}

void Bases::release_all() {
  first_.stop();
  inheritance_.stop();
  ending_ = true;
  next_launcher_.stop();
  second_.stop();
  before_.stop();
  watch_.reset();
  jobs_.release_all();
}

bool Bases::moving() const {
  return second_.id() != 0 || before_.id() != 0 || first_.arrived() != 0 || second_.acquiring();
}

JobId Bases::waits() const {
  const bool none =
      current_.id() == 0 && second_.id() == 0 && !second_.acquiring() && !ending_ && inheritance_.complete();
  return none && context_.base_gpus > context_.min_gpus ? first_.waits() : 0;
}

std::vector<Holding> Bases::arrived_holdings() const {
  return second_.id() == 0 && before_.id() == 0 ? jobs_.holdings_of(first_.arrived()) : std::vector<Holding>();
}

bool Bases::empty() const { return jobs_.none() && !second_.asking() && !inheritance_.asking() && !first_.asking(); }

}  // namespace espalier::launcher
