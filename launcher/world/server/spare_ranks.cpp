#include "launcher/world/server/spare_ranks.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/world/container.hpp"
#include "launcher/world/server/spare_origin.hpp"
#include "launcher/world/server/variables.hpp"
#include "planner/core/error.hpp"

namespace espalier::launcher {
namespace {
// A spare overwrites these in place when it learns who it is, so that `ps e` and /proc show it. They leave room.
constexpr const char* kPlaceholders[] = {"ESPALIER_GENERATION=spare     ", "OMPI_COMM_WORLD_RANK=spare     "};
}  // namespace

void SpareRanks::keep(wire::KeepSpares request, const std::vector<std::string>& local, const ContainerStep* container,
                      bool gently) {
  if (request.program != wanted_.program || request.folder != wanted_.folder) {
    spares_.clear();
    direct_ = scripted_ = false;
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
  if (!direct_) spares_.clear();
}

void SpareRanks::start_anew() {
  spares_.clear();
  start_next();
}

void SpareRanks::start_next() {
  if (held_) return;
  if (container_ != nullptr && !container_->ready()) return;  // start_anew() follows
  while (!scripted_ && spares_.size() < static_cast<std::size_t>(std::max(0, wanted_.count))) {
    const bool loads = std::any_of(spares_.begin(), spares_.end(), [](const Spare& one) { return !one.is_loaded; });
    if (gently_ && loads) return;
    try {
      start_one();
    } catch (const Error&) {  // no memory or no processes: the next generation starts without
      wanted_.count = 0;
    }
  }
}

void SpareRanks::start_one() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(std::string("spare: no socket: ") + std::strerror(errno));
  const wire::Descriptor theirs(ends[1]);
  wire::Descriptor ours(ends[0]);
  const int on = 1;  // the kernel names the process that writes
  if (::setsockopt(ours.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    throw Error(std::string("spare: no credentials: ") + std::strerror(errno));
  spares_.emplace_back();
  const auto at = std::prev(spares_.end());
  at->socket = std::move(ours);
  auto over = local_;
  over.push_back("ESPALIER_SPARE=" + std::to_string(theirs.get()));
  over.insert(over.end(), std::begin(kPlaceholders), std::end(kPlaceholders));
  Child::Traits traits;
  traits.blocks_term = true;
  if (container_ == nullptr) traits.folder = wanted_.folder;
  else traits.entry = container_->entry();
  traits.limits = wanted_.limits;
  traits.inherited = theirs.get();
  const auto own = container_ == nullptr ? wanted_.environment : container_->environment(wanted_.environment);
  if (container_ != nullptr) traits.paths = paths_of(wanted_.program.front(), own);
  try {
    at->rank.output = std::make_unique<RankOutput>(loop_, true, [](const std::string&) {});
    at->rank.errors = std::make_unique<RankOutput>(loop_, false, [](const std::string&) {});
    traits.output = at->rank.output->writer();
    traits.errors = at->rank.errors->writer();
    // One that ends is not replaced: what made it end may last.
    at->rank.process = std::make_unique<Child>(loop_, wanted_.program, merged(own, over), traits, [this, at](int) {
      wanted_.count = 0;
      loop_.defer([this, child = at->rank.process.get()] {
        std::erase_if(spares_, [child](const Spare& one) { return one.rank.process.get() == child; });
      });
    });
  } catch (const Error&) {
    spares_.erase(at);
    throw;
  }
  at->rank.output->started();
  at->rank.errors->started();
  at->loaded = loop_.on_readable(at->socket.get(), [this, at] { has_loaded(at); });
}

void SpareRanks::has_loaded(std::list<Spare>::iterator spare) {
  spare->loaded.reset();
  spare->is_loaded = true;
  const pid_t pid = spare->rank.process->pid();
  if (sender_of_byte(spare->socket.get()) == pid && is_command_of(pid, wanted_.program)) {
    direct_ = true;
    return start_next();
  }
  scripted_ = true;
  loop_.defer([this] {
    if (scripted_) spares_.clear();
  });
}

std::optional<RankProcess> SpareRanks::take(const std::vector<std::string>& program, const std::string& folder,
                                            const std::vector<std::string>& environment) {
  if (program != wanted_.program || folder != wanted_.folder || !direct_) return std::nullopt;
  for (auto at = spares_.begin(); at != spares_.end(); ++at) {
    if (!at->rank.process->running()) continue;
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
