#include "launcher/job/machine.hpp"

#include <spdlog/spdlog.h>

#include "planner/core/json.hpp"

namespace espalier::launcher {

void Machine::raise(Event event, const std::string& why, bool by_world) {
  events_.push_back({event, why, by_world});
  // Never from inside the callback that raised it: it may destroy the object that called.
  loop_.defer([this] {
    if (events_.empty()) return;
    const Raised next = events_.front();
    events_.pop_front();
    process(next.event, next.why);
    if (quiet()) callbacks_.quiet();
  });
}

void Machine::process(Event event, const std::string& why) {
  const Row* row = transition(phase_, event);
  if (row == nullptr) {
    spdlog::debug("launch: {} means nothing in state {}", to_string(event), to_string(phase_));
    return;
  }
  callbacks_.leaves(*row, why);
  phase_ = row->to;
  spdlog::debug("launch: {} --{}--> {}", to_string(row->from), to_string(event), to_string(phase_));
  callbacks_.enters(*row);
  for (const Action action : row->actions) callbacks_.perform(action);
  callbacks_.settles();
}

void Machine::forget_first() {
  std::erase_if(events_, [](const Raised& waiting) { return waiting.by_world || waiting.event == Event::world_ready; });
}

void Machine::forget_next() {
  std::erase_if(events_, [](const Raised& waiting) {
    using enum Event;
    return waiting.event == next_ready || waiting.event == next_failed || waiting.event == next_loaded;
  });
}

void Machine::forget_answers() {
  std::erase_if(events_, [](const Raised& waiting) {
    return waiting.event == Event::old_stands || waiting.event == Event::old_switched;
  });
}

void Machine::forget_old() {
  std::erase_if(events_, [](const Raised& waiting) {
    using enum Event;
    const Event event = waiting.event;
    return event == old_stands || event == old_switched || event == current_finished ||
           ((event == current_lost || event == current_failed) && waiting.by_world);
  });
}

void Machine::forget_current() {
  std::erase_if(events_, [](const Raised& waiting) {
    using enum Event;
    const Event event = waiting.event;
    // The launcher's own failure still ends the job.
    return event == old_stands || event == old_switched || event == current_finished || event == current_lost ||
           (event == current_failed && waiting.by_world);
  });
}

}  // namespace espalier::launcher
