#include "launcher/world/served_ranks.hpp"

#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "planner/core/error.hpp"
#include "planner/wire/handshake.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::launcher {
namespace {
constexpr wire::Loop::Milliseconds kTermToKill{1500};
// From MPI_Abort to the end of all ranks. It leaves time for the news that another rank has died, which may be why.
constexpr wire::Loop::Milliseconds kAbortToKill{200};

// A request to start ranks, of JSON text without `here` (messages.hpp).
std::string frame_for(std::string text, std::size_t place) {
  text.back() = ',';
  return wire::encode_text(wire::RunRanks::type, text + "\"here\":" + std::to_string(place) + "}");
}

}  // namespace

ServedRanks::ServedRanks(wire::Loop& loop, const WorldRequest& request, std::chrono::seconds start, Links links,
                         RanksCallbacks callbacks, AwakeLooks looks)
    : loop_(loop),
      links_(std::move(links)),
      callbacks_(std::move(callbacks)),
      by_rank_(servers_of(request)),
      ends_(by_rank_.size()),
      sends_(loop, links_.send, links_.unread),
      start_(loop, looks) {
  request_.generation = request.generation;
  request_.name = "espalier-" + wire::fresh_nonce();
  request_.program = request.program;
  request_.environment = request.environment;
  request_.directory = request.directory;
  std::error_code error;
  request_.folder = std::filesystem::current_path(error).string();
  request_.limits = request.limits;
  request_.network = request.network;
  request_.first = request.first;
  request_.base64 = true;
  const std::vector<int> devices = visible_places(request);
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const ServerId& id = by_rank_[rank];
    const auto [at, fresh] = places_.try_emplace(id, Place{request_.places.size()});
    if (fresh) request_.places.push_back({id.node + "." + std::to_string(id.job), {}, {}});
    request_.places[at->second.index].ranks.push_back(static_cast<int>(rank));
    request_.places[at->second.index].devices.push_back(devices[rank]);
  }
  fences_ = Fences(request_.places.size());
  start_.start(start, [this, start] {
    std::vector<ServerId> late;
    for (const auto& [id, place] : places_)
      if (!place.there && !place.gone) late.push_back(id);
    for (const ServerId& id : late)
      gone(id, "the rank server of job " + std::to_string(id.job) + " on " + id.node + " has not come within " +
                   std::to_string(start.count()) + " s");
  });
}

// What waits to be sent is dropped: a server that was never asked to start ranks has none to end.
ServedRanks::~ServedRanks() {
  const std::string end = wire::encode(wire::to_frame(wire::EndRanks{request_.generation}));
  for (const auto& [id, place] : places_)
    if (place.asked && !place.gone) links_.send(id, end);
  links_.forget();
}

template <class Message>
void ServedRanks::tell(const ServerId& id, const Message& message) const {
  sends_.send(id, [frame = wire::encode(wire::to_frame(message))] { return frame; });
}

// Encoded once.
template <class Message>
void ServedRanks::tell_all(const Message& message) const {
  const auto frame = std::make_shared<const std::string>(wire::encode(wire::to_frame(message)));
  for (const auto& [id, place] : places_)
    if (place.asked && !place.gone) sends_.send(id, [frame] { return *frame; });
}

// What a fence has gathered is for all, and long: each form is encoded once, and only where a server reads it. Throws
// Error where it is longer than a message may be.
void ServedRanks::tell_all_done(std::int64_t number, const std::string& bytes) const {
  std::map<bool, std::shared_ptr<const std::string>> frames;  // by base64
  std::vector<std::pair<ServerId, bool>> servers;
  for (const auto& [id, place] : places_) {
    if (!place.asked || place.gone) continue;
    servers.emplace_back(id, place.base64);
    auto& frame = frames[place.base64];
    if (frame) continue;
    const auto done = wire::with_bytes(wire::FenceDone{request_.generation, number, true}, bytes, place.base64);
    frame = std::make_shared<const std::string>(wire::encode(wire::to_frame(done)));
  }
  for (const auto& [id, base64] : servers) sends_.send(id, [frame = frames.at(base64)] { return *frame; });
}

void ServedRanks::signal(int number) const { tell_all(wire::SignalRanks{request_.generation, number}); }

void ServedRanks::came(const ServerId& id, bool base64) {
  Place& place = places_.at(id);
  place.there = true;
  place.base64 = base64;
  ask(id, place);
}

void ServedRanks::ask(const ServerId& id, Place& place) {
  // The server of rank 0 says first where all ranks meet.
  if (request_.port == 0 && id != by_rank_.front()) return;
  if (place.asked || place.gone || stop_ != Stop::none) return;
  if (request_.port == 0) {
    request_.here = static_cast<int>(place.index);
    tell(id, request_);
  } else {
    sends_.send(id, [text = request_text(), at = place.index] { return frame_for(*text, at); });
  }
  place.asked = true;
}

// Throws Error where the request would be longer than a frame may be.
const std::shared_ptr<const std::string>& ServedRanks::request_text() {
  if (request_text_) return request_text_;
  Json body = wire::to_frame(request_).body;
  body.erase("here");
  auto text = std::make_shared<const std::string>(body.dump(-1, ' ', false, Json::error_handler_t::replace));
  frame_for(*text, by_rank_.size());
  return request_text_ = std::move(text);
}

void ServedRanks::gone(const ServerId& id, const std::string& why) {
  Place& place = places_.at(id);
  if (place.gone) return;
  place.gone = true;
  sends_.drop(id);
  std::vector<int> lost;
  for (const int rank : request_.places[place.index].ranks) {
    if (ends_.ended(rank)) continue;
    lost.push_back(rank);
    ends_.end(rank, 128 + SIGKILL);
  }
  break_fences();
  if (lost.empty()) return;
  callbacks_.lost(lost, why);
  conclude();
}

void ServedRanks::handle(const ServerId& id, const wire::Frame& frame) {
  const auto own = [&](int rank) {
    return rank >= 0 && static_cast<std::size_t>(rank) < by_rank_.size() &&
           by_rank_[static_cast<std::size_t>(rank)] == id;
  };
  if (frame.type == wire::RankEnded::type) {
    const auto ended = wire::from_frame<wire::RankEnded>(frame);
    if (!own(ended.rank) || ends_.ended(ended.rank)) return;
    // MPI calls it an error when a rank leaves without MPI_Finalize: the others may wait for it for ever.
    const int code = ended.code == 0 && !ended.finalized ? 1 : ended.code;
    ends_.end(ended.rank, code);
    callbacks_.ended(ended.rank, code);
    if (code != 0 && request_.first) stop_others();
    conclude();
  } else if (frame.type == wire::RankAborted::type) {
    const auto message = wire::from_frame<wire::RankAborted>(frame);
    if (own(message.rank)) aborted(message);
  } else if (frame.type == wire::RanksRefused::type) {
    gone(id, id.node + ": " + wire::from_frame<wire::RanksRefused>(frame).reason);
  } else if (frame.type == wire::Rendezvous::type) {
    const auto meeting = wire::from_frame<wire::Rendezvous>(frame);
    if (id != by_rank_.front() || request_.port != 0 || meeting.port < 1 || meeting.port > 65535) return;
    request_.address = meeting.address;
    request_.port = meeting.port;
    try {
      request_text();
    } catch (const Error& error) {
      return fail("the request to start " + std::to_string(by_rank_.size()) + " ranks: " + error.what());
    }
    for (auto& [other, place] : places_)
      if (place.there) ask(other, place);
  } else if (frame.type == wire::FenceEntered::type) {
    enter(places_.at(id).index, wire::from_frame<wire::FenceEntered>(frame));
  } else if (frame.type == wire::ModexWanted::type) {
    pass_on(id, wire::from_frame<wire::ModexWanted>(frame));
  } else if (frame.type == wire::ModexFound::type) {
    auto found = wire::from_frame<wire::ModexFound>(frame);
    const auto asker = questions_.answer(found.ticket);
    if (!asker) return;
    found.ticket = asker->ticket;
    tell(asker->server, found);
  }
}

// MPI_Abort ends all ranks, not only its caller.
void ServedRanks::aborted(const wire::RankAborted& message) {
  ends_.blame(message.code == 0 ? 1 : message.code & 0xff);
  if (callbacks_.aborted) callbacks_.aborted(message.rank);
  if (std::exchange(stop_, Stop::aborted) == Stop::aborted) return;
  kill_ = loop_.after(kAbortToKill, [this] { signal(SIGKILL); });
  if (give_up_unasked()) conclude();
}

void ServedRanks::pass_on(const ServerId& asker, wire::ModexWanted question) {
  const auto rank = static_cast<std::size_t>(question.rank);
  if (question.rank < 0 || rank >= by_rank_.size() || places_.at(by_rank_[rank]).gone || questions_.full())
    return tell(asker, wire::ModexFound{request_.generation, question.ticket, false, ""});
  question.ticket = questions_.ask(asker, question.ticket);
  tell(by_rank_[rank], question);
}

// The first generation may be any MPI program, and ends as under mpirun: as a whole.
void ServedRanks::stop_others() {
  if (stop_ != Stop::none) return;
  stop_ = Stop::first_ended;
  signal(SIGTERM);
  kill_ = loop_.after(kTermToKill, [this] { signal(SIGKILL); });
  give_up_unasked();
}

// A server that comes after a stop is not asked to start its ranks. Nobody would tell that they have ended. True: there
// were such ranks.
bool ServedRanks::give_up_unasked() {
  bool some = false;
  for (auto& [id, place] : places_) {
    if (place.asked || std::exchange(place.gone, true)) continue;
    for (const int rank : request_.places[place.index].ranks) {
      if (ends_.ended(rank)) continue;
      ends_.end(rank, ends_.code());
      some = true;
    }
  }
  return some;
}

void ServedRanks::enter(std::size_t place, const wire::FenceEntered& entered) {
  const auto data = fences_.enter(place, entered.number, wire::bytes_of(entered));
  if (fences_.broken()) return break_fences();
  if (data) try {
      tell_all_done(entered.number, *data);
    } catch (const Error&) {
      fail(
          "the " + std::to_string(by_rank_.size()) + " ranks have published " + std::to_string(data->size() >> 20) +
          " MiB for one another, which is more than a message to a rank server holds; run fewer ranks, or have MPI ask "
          "for addresses when it needs them (with Open MPI: export OMPI_MCA_pmix_base_collect_data=0)");
    }
}

// No server is to blame, and all ranks would wait for ever.
void ServedRanks::fail(const std::string& why) {
  stop_ = Stop::aborted;
  signal(SIGKILL);
  std::vector<int> lost;
  for (int rank = 0; rank < static_cast<int>(by_rank_.size()); ++rank) {
    if (ends_.ended(rank)) continue;
    lost.push_back(rank);
    ends_.end(rank, 128 + SIGKILL);
  }
  callbacks_.lost(lost, why);
  conclude();
}

void ServedRanks::break_fences() {
  for (const std::int64_t number : fences_.end()) tell_all(wire::FenceDone{request_.generation, number, false, ""});
}

void ServedRanks::conclude() {
  if (ends_.left() > 0) return;
  start_.stop();
  kill_.reset();
  callbacks_.all_ended(ends_.code());
}

}  // namespace espalier::launcher
