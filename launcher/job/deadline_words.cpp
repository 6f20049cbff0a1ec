#include "launcher/job/deadline_words.hpp"

#include <ctime>

#include "planner/core/schedule/duration_text.hpp"

namespace espalier::launcher {
namespace {

std::string time_text(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm local{};
  char text[32] = "?";
  if (::localtime_r(&seconds, &local) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

std::string gpus_text(int gpus) { return std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs"); }

// "predicted end 2026-11-26T07:40:00 on its 2 GPUs, 2026-11-26T07:10:00 on 8 GPUs at best"
std::string ends_text(const DeadlineForecast& forecast) {
  std::string text = "predicted end " + time_text(forecast.own_end) + " on its " + gpus_text(forecast.own_gpus);
  if (forecast.best_gpus != forecast.own_gpus)
    text += ", " + time_text(forecast.best_end) + " on " + gpus_text(forecast.best_gpus) + " at best";
  return text + (forecast.measured ? " (by what a job like it measured)"
                                   : " (by the GPUs' data sheets alone; nothing is measured yet)");
}

}  // namespace

DeadlineVerdict judge_deadline(const wire::DeadlineChecked& checked, double deadline, double now, bool goes_on) {
  const DeadlineForecast& forecast = checked.forecast;
  const std::string start = "deadline " + time_text(deadline) + ": ";
  const std::string remedy = "give a later deadline, a larger MAX or fewer steps, or leave deadline= out";
  if (deadline <= now) {
    const bool refused = checked.refuses_late && !goes_on;
    return {refused, true, start + (refused ? "refused: " : "late: ") + "it is over already; " + remedy};
  }
  if (goes_on)
    return {false, true,
            start +
                "cannot be told yet: training goes on from an earlier state, and how many steps are "
                "left is known when it runs"};
  if (!checked.known)
    return {false, true,
            start +
                "cannot be told yet: the program does not say how many steps it does, or nothing is "
                "known of its model"};
  const std::string ends = ends_text(forecast);
  if (forecast.own_end <= deadline) return {false, false, start + "admitted: " + ends};
  if (forecast.best_end <= deadline)
    return {false, false, start + "admitted, but it is kept only with more GPUs: " + ends};
  const std::string late = duration_text(forecast.best_end - deadline) + " too late even on the most GPUs that help: ";
  const bool sure = forecast.measured && forecast.least_end > deadline;
  if (sure && checked.refuses_late) return {true, true, start + "refused: " + late + ends + "; " + remedy};
  if (sure) return {false, true, start + "will be missed: " + late + ends + "; the site lets it start all the same"};
  return {false, true,
          start + "will probably be missed: " + late + ends +
              (forecast.measured ? "; a plan that was not looked at may keep it, so the job starts"
                                 : "; too rough a figure to refuse the job")};
}

std::string unchecked_deadline(double deadline, const std::string& why) {
  return "deadline " + time_text(deadline) + ": could not be checked: " + why + "; the job goes on";
}

}  // namespace espalier::launcher
