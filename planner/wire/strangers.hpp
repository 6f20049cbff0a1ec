// The connections whose peers have not proved yet who they are. Their number is bounded, so that
// strangers leave descriptors for others. Beyond the bound the oldest one goes: an honest peer
// needs milliseconds.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "planner/wire/connection.hpp"

namespace espalier::wire {

class Strangers {
 public:
  // `of_address`: most connections from one address; `in_all`: from all.
  Strangers(std::size_t of_address, std::size_t in_all) : of_address_(of_address), in_all_(in_all) {}
  // `address`: "10.0.0.1:4711"; the port does not count.
  void add(const std::string& address, const std::shared_ptr<BufferedConnection>& connection);
  std::size_t size() const { return all_.size(); }

 private:
  struct One {
    std::string host;
    std::weak_ptr<BufferedConnection> connection;
  };
  std::size_t count(const std::string& host) const;
  void drop_oldest(const std::string& host);

  std::size_t of_address_, in_all_;
  std::list<One> all_;  // the oldest first
};

}  // namespace espalier::wire
