#include "launcher/job/change.hpp"

#include "launcher/job/outcomes.hpp"

namespace espalier::launcher {

double milliseconds_between(const Change& change, const std::string& from, const std::string& to) {
  const auto begin = change.at.find(from), end = change.at.find(to);
  if (begin == change.at.end() || end == change.at.end()) return 0;
  return std::chrono::duration<double, std::milli>(end->second - begin->second).count();
}

wire::Outcome outcome_now(const JobContext& context, const Generations& generations, const StepWatch& steps,
                          const Decision& decision, const std::string& result) {
  wire::Outcome outcome = outcome_of(context.job, decision, result);
  outcome.generation = generations.number();
  outcome.step = steps.step();
  outcome.plan = generations.plan();
  tell_own(decision, outcome);
  return outcome;
}

}  // namespace espalier::launcher
