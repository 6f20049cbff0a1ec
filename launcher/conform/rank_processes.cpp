#include "launcher/conform/rank_processes.hpp"

#include <signal.h>
#include <unistd.h>

namespace espalier::launcher::conform {
namespace {

bool is_crash(int code) {
  const int number = code - 128;
  return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

}  // namespace

void RankProcesses::start(const std::function<std::unique_ptr<Ranks>(RanksCallbacks)>& run,
                          std::function<void(const std::string& why)> lost) {
  RanksCallbacks on;
  on.ended = [this](int rank, int code) { codes_[rank] = code; };
  on.lost = [this, lost = std::move(lost)](const std::vector<int>& ranks, const std::string& why) {
    for (const int rank : ranks) codes_[rank] = 255;
    lost_ = why;
    lost(why);
  };
  on.all_ended = [](int) {};
  ranks_ = run(std::move(on));
}

void RankProcesses::named(int rank, int process) {
  // The suite kills workers by this number: -1 and 0 mean many processes.
  if (process <= 1 || process == ::getpid()) throw Error("hello.pid: is no process of a worker");
  processes_[rank] = process;
}

std::string RankProcesses::how_ended(int rank) const {
  return of_rank(rank) + " ended with code " + std::to_string(codes_.at(rank));
}

void RankProcesses::kill(int rank) { ::kill(processes_.at(rank), SIGKILL); }

void RankProcesses::ends() {
  if (!stage_.until([this] { return ended(); }, stage_.patience())) throw Failure("not all ranks have ended in time");
  if (!lost_.empty()) throw Failure(lost_);
  for (const auto& [rank, code] : codes_)
    if (is_crash(code)) throw Failure(of_rank(rank) + " crashed by signal " + std::to_string(code - 128));
}

void RankProcesses::leaves_well() {
  ends();
  for (const auto& [rank, code] : codes_)
    if (code != 0) throw Failure(how_ended(rank));
}

void RankProcesses::leaves_failed() {
  ends();
  for (const auto& [rank, code] : codes_)
    if (code == 0) throw Failure(of_rank(rank) + " ended with code 0, as if all were well");
}

}  // namespace espalier::launcher::conform
