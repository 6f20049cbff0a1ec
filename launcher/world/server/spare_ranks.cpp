#include "launcher/world/server/spare_ranks.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/world/container.hpp"
#include "launcher/world/server/fork_request.hpp"
#include "launcher/world/server/numa_binding.hpp"
#include "launcher/world/server/spare_origin.hpp"
#include "launcher/world/server/variables.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
// A spare overwrites these in place when it learns who it is, so that `ps e` and /proc show it. They leave room.
constexpr const char* kPlaceholders[] = {"ESPALIER_GENERATION=spare     ", "OMPI_COMM_WORLD_RANK=spare     "};
constexpr char kForks = 'f';  // the first word of a spare that can fork
}  // namespace

void SpareRanks::keep(wire::KeepSpares request, const std::vector<std::string>& local, const ContainerStep* container,
                      bool gently) {
  if (!is_of(request.program, request.folder)) {
    end_all();
    unfit_ = false;
    tries_ = kTries;
  }
  wanted_ = std::move(request);
  local_ = local;
  container_ = container;
  gently_ = gently;
  held_ = false;
  start_next();
}

void SpareRanks::hold() {
  held_ = true;
  drop([this](const Spare& one) { return !one.is_loaded && (one.may_fork || !direct_); });
}

void SpareRanks::give_up() {
  tries_ = fork_server_ ? tries_ - 1 : 0;
  fork_server_.reset();
  drop([](const Spare& one) { return !one.is_loaded; });
  loop_.defer(callbacks_.changed);  // whoever waits goes on, also where nothing was dropped
}

void SpareRanks::start_anew() {
  end_all();
  start_next();
}

void SpareRanks::end_all() {
  fork_server_.reset();
  direct_ = false;
  drop([](const Spare&) { return true; });
}

bool SpareRanks::is_loading() const {
  return std::any_of(spares_.begin(), spares_.end(), [](const Spare& one) { return one.may_fork && !one.is_loaded; });
}

void SpareRanks::drop(const std::function<bool(const Spare&)>& which) {
  std::vector<Child*> processes;
  for (const Spare& one : spares_)
    if (which(one) && one.rank.process) processes.push_back(one.rank.process.get());
  Child::end_all(processes);  // those that hang while they load are waited for together
  if (std::erase_if(spares_, which) > 0) loop_.defer(callbacks_.changed);
}

bool SpareRanks::is_of(const std::vector<std::string>& program, const std::string& folder) const {
  return program == wanted_.program && folder == wanted_.folder;
}

bool SpareRanks::loads() const {
  return std::any_of(spares_.begin(), spares_.end(), [](const Spare& one) { return !one.is_loaded; });
}

// While a process loads that may become the fork server, no other one is started.
void SpareRanks::start_next() {
  if (held_ || unfit_) return;
  if (container_ != nullptr && !container_->ready()) return;  // start_anew() follows
  while (spares_.size() < static_cast<std::size_t>(std::max(0, wanted_.count))) {
    if (!fork_server_ && (gently_ || !direct_ || tries_ > 0) && loads()) return;
    try {
      fork_server_ ? fork_one() : start_one();
    } catch (const Error&) {  // no memory or no processes: the next generation starts without
      wanted_.count = 0;
    }
  }
}

SpareRanks::At SpareRanks::prepare(wire::Descriptor& theirs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(std::string("spare: no socket: ") + std::strerror(errno));
  theirs.reset(ends[1]);
  Spare one;
  one.socket.reset(ends[0]);
  const int on = 1;  // the kernel names the process that writes
  if (::setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    throw Error(std::string("spare: no credentials: ") + std::strerror(errno));
  one.rank.output = std::make_unique<RankOutput>(loop_, true, [](const std::string&) {});
  one.rank.errors = std::make_unique<RankOutput>(loop_, false, [](const std::string&) {});
  spares_.push_back(std::move(one));
  const auto at = std::prev(spares_.end());
  at->loaded = loop_.on_readable(at->socket.get(), [this, at] { has_loaded(at); });
  return at;
}

void SpareRanks::start_one() {
  wire::Descriptor theirs;
  const At at = prepare(theirs);
  auto over = local_;
  over.push_back("ESPALIER_SPARE=" + std::to_string(theirs.get()));
  at->may_fork = tries_ > 0;
  if (at->may_fork) over.emplace_back("ESPALIER_SPARE_FORKS=1");
  over.insert(over.end(), std::begin(kPlaceholders), std::end(kPlaceholders));
  Child::Traits traits;
  traits.blocks_term = true;
  if (container_ == nullptr) traits.folder = wanted_.folder;
  else traits.entry = container_->entry();
  traits.limits = wanted_.limits;
  traits.inherited = theirs.get();
  traits.refused = [this, at](const std::string&) { lose(at); };
  traits.output = at->rank.output->writer();
  traits.errors = at->rank.errors->writer();
  const auto own = container_ == nullptr ? wanted_.environment : container_->environment(wanted_.environment);
  if (container_ != nullptr) traits.paths = paths_of(wanted_.program.front(), own);
  try {
    at->rank.process =
        std::make_unique<Child>(loop_, wanted_.program, merged(own, over), traits, [this, at](int) { lose(at); });
  } catch (const Error&) {
    spares_.erase(at);
    throw;
  }
  at->rank.output->started();
  at->rank.errors->started();
}

void SpareRanks::fork_one() {
  wire::Descriptor theirs;
  const At at = prepare(theirs);
  const bool asked =
      ask_for_fork(fork_server_->socket.get(), theirs.get(), at->rank.output->writer(), at->rank.errors->writer());
  at->rank.output->started();
  at->rank.errors->started();
  if (asked) return;
  spares_.erase(at);
  throw Error("spare: the fork server takes no request");
}

void SpareRanks::has_loaded(At spare) {
  spare->loaded.reset();
  const FirstWord word = first_word(spare->socket.get());
  if (!spare->rank.process) return has_forked(spare, word.writer);
  spare->is_loaded = true;
  const pid_t pid = spare->rank.process->pid();
  if (word.writer == pid && is_command_of(pid, wanted_.program)) {
    direct_ = true;
    if (word.byte == kForks && !fork_server_) serves(spare);
    else tries_ = 0;  // it has threads, for example
    loop_.defer(callbacks_.changed);
    return start_next();
  }
  unfit_ = true;
  loop_.defer([this] {
    if (unfit_) drop([](const Spare&) { return true; });
  });
}

// A fork that has failed is not asked for again before keep(): the lack of memory or of processes may last.
void SpareRanks::has_forked(At spare, pid_t pid) {
  try {
    if (pid <= 0) throw Error("spare: the fork server made no process");
    spare->rank.process = std::make_unique<Child>(loop_, pid, [this, spare](int) { lose(spare); });
    spare->is_loaded = true;
    loop_.defer(callbacks_.changed);
  } catch (const Error&) {
    lose(spare);
  }
}

void SpareRanks::serves(At spare) {
  fork_server_ = std::move(*spare);
  spares_.erase(spare);
  fork_server_->rank.process->on_exit([this, process = fork_server_->rank.process.get()](int) {
    wanted_.count = 0;
    --tries_;
    loop_.defer([this, process] {
      if (fork_server_ && fork_server_->rank.process.get() == process) fork_server_.reset();
    });
    loop_.defer(callbacks_.changed);
  });
  loop_.defer(callbacks_.can_fork);
}

// One that ends is not replaced: what made it end may last.
void SpareRanks::lose(At spare) {
  wanted_.count = 0;
  spare->is_lost = true;
  loop_.defer([this] { drop([](const Spare& one) { return one.is_lost; }); });
}

SpareRanks::Soon SpareRanks::soon(std::size_t count, const std::vector<std::string>& program,
                                  const std::string& folder) {
  if (!is_of(program, folder) || unfit_) return Soon::no;
  if (!fork_server_) return is_loading() && wanted_.forks && count > 1 ? Soon::loads : Soon::no;
  try {
    while (wanted_.count > 0 && spares_.size() < count) fork_one();
  } catch (const Error&) {  // those that lack are started
  }
  return loads() ? Soon::forks : Soon::no;
}

std::optional<RankProcess> SpareRanks::take(const std::vector<std::string>& program, const std::string& folder,
                                            const std::vector<std::string>& environment, const std::vector<int>& cpus) {
  if (!is_of(program, folder) || !direct_) return std::nullopt;
  for (auto at = spares_.begin(); at != spares_.end(); ++at) {
    if (!at->rank.process || !at->rank.process->running() || (at->may_fork && !at->is_loaded)) continue;
    if (at->rank.process->starts()) continue;
    bind_to(at->rank.process->pid(), cpus);  // before it starts threads
    std::string text;
    for (const std::string& variable : environment) text.append(variable.c_str(), variable.size() + 1);
    // It may not read yet, and an environment may be longer than a socket's buffer.
    const int size = static_cast<int>(text.size()) + 4096;
    ::setsockopt(at->socket.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    const ssize_t sent = ::send(at->socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    RankProcess rank = std::move(at->rank);
    spares_.erase(at);  // closes the socket: that was all
    if (sent == static_cast<ssize_t>(text.size())) return rank;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace espalier::launcher
