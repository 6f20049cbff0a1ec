// A queue in which users take turns: a user who has put much into it waits behind own entries,
// and not in front of others. Pure.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace espalier {

template <class Entry>
class FairQueue {
 public:
  void push(uid_t user, Entry entry) { users_[user].push_back(std::move(entry)); }
  // The oldest entry of the user whose turn it is; turns go by the users' numbers, round and round.
  std::optional<Entry> pop() {
    if (users_.empty()) return std::nullopt;
    auto at = last_ ? users_.upper_bound(*last_) : users_.begin();
    if (at == users_.end()) at = users_.begin();
    last_ = at->first;
    Entry entry = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty()) users_.erase(at);
    return entry;
  }

 private:
  std::map<uid_t, std::deque<Entry>> users_;  // none is empty
  std::optional<uid_t> last_;
};

}  // namespace espalier
