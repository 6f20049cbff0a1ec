#include "launcher/job/losses.hpp"

#include <spdlog/spdlog.h>

#include "launcher/job/holdings.hpp"

namespace espalier::launcher {

// Once the old generation has ended, the next one is all there is.
void Losses::of_next(const std::string& why) {
  const bool only = rooms_.machine.phase() == JobPhase::restarting;
  rooms_.machine.raise(only ? Event::current_lost : Event::next_failed, why);
}

void Losses::of_generation(bool is_next, const Loss& loss) {
  const bool recovering = rooms_.machine.phase() == JobPhase::recovering;
  if (!is_next || recovering) rooms_.recovery.blame(loss);
  if (recovering) rooms_.recovery.suspect(loss);
  if (is_next) return of_next(loss.why);
  if (rooms_.generation_zero.wide()) return rooms_.machine.raise(Event::wide_lost, loss.why, true);
  rooms_.ending.generation_lost(loss.code);
  // A plan that was taken in place may need more memory than there is, or not run at all.
  const bool with_lists = rooms_.lists.runs();
  const bool taken_back = loss.own && rooms_.hand_off.in_place().take_back(loss.why);
  // Searched lists may use all the memory that the model sees. Its own schedule needs less.
  const bool for_lists = with_lists && loss.own && (taken_back || loss.memory);
  if (for_lists) rooms_.lists.failed();
  else rooms_.lists.lost();
  // The lost generation may have lacked memory that another generation had. Nothing of the other generation is left
  // when training is tried again.
  const bool tries_again = taken_back || for_lists ||
                           (loss.own && ((loss.memory && rooms_.generations.crowded()) || rooms_.earlier.make_room()));
  rooms_.machine.raise(loss.own && !tries_again ? Event::current_failed : Event::current_lost, loss.why, true);
}

// Ranks of an extension that Slurm takes back get SIGTERM, and may end by it before they have said hello.
bool Losses::of_wide_start(int code) {
  if (!rooms_.generation_zero.wide()) return false;
  rooms_.machine.raise(Event::wide_lost, "a rank ended with code " + std::to_string(code) + " before it trained", true);
  return true;
}

void Losses::of_extension(const Holding& holding) {
  const std::string why = "extension " + std::to_string(holding.job) + " on " + holding.node + " is gone";
  if (breaks_generation(holding, why)) return;
  spdlog::warn("espalier: launch: {}", why);
  break_change(holding, why);
}

void Losses::of_refused(const Holding& holding, const std::string& why) {
  // Where a change fails for it, the user is told with that.
  if (!rooms_.hand_off.under_way()) spdlog::warn("espalier: launch: {}", why);
  if (!breaks_generation(holding, why)) break_change(holding, why);
}

// True: the event was raised, or a recovery needs none.
bool Losses::breaks_generation(const Holding& holding, const std::string& why) {
  const JobPhase now = rooms_.machine.phase();
  const bool used = uses(rooms_.generations.plan(), holding);
  const auto raise = [&](Event event, bool by_world = false) {
    rooms_.machine.raise(event, why, by_world);
    return true;
  };
  const bool next_uses = rooms_.hand_off.under_way() && uses(rooms_.hand_off.decision().plan, holding);
  if (rooms_.generation_zero.wide() && used) return raise(Event::wide_lost);
  // While restarting, the job has no generation but the next one.
  if (now == JobPhase::restarting && next_uses) return raise(Event::current_lost);
  // The next generation may take over before this event's turn. Where it uses the extension, too, it is lost with it.
  if (rooms_.generations.current() != nullptr && used) return raise(Event::current_lost, !next_uses);
  if (now != JobPhase::recovering) return false;
  if (rooms_.generations.next() != nullptr && uses(rooms_.recovery.plan(), holding)) raise(Event::next_failed);
  return true;
}

void Losses::break_change(const Holding& holding, const std::string& why) {
  if (rooms_.hand_off.under_way() && !rooms_.hand_off.releases(holding.job))
    rooms_.machine.raise(Event::notice_breaks, why);
}

}  // namespace espalier::launcher
