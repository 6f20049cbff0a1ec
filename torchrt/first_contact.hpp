// A worker's first contact with its launcher. The launcher takes on a bounded number of peers at a time that it does
// not know yet, and MUNGE some hundred a second: it drops some of thousands of workers that come in one moment.
#pragma once

#include <chrono>
#include <thread>

#include "planner/wire/client.hpp"

namespace espalier::torchrt {

struct FirstContact {
  std::chrono::milliseconds most{60'000};  // that a worker tries again for
  std::chrono::milliseconds pause{200};    // between two tries; different for different workers
};

// What `connect` returns. It is called again while the connection is lost in the login. Throws what it throws when that
// is anything else, e.g. where nobody listens, or when the time is over.
template <class Connect>
auto make_contact(const Connect& connect, const FirstContact& contact) {
  const auto until = std::chrono::steady_clock::now() + contact.most;
  for (;;) {
    try {
      return connect();
    } catch (const wire::ConnectionLost&) {
      if (std::chrono::steady_clock::now() + contact.pause > until) throw;
    }
    std::this_thread::sleep_for(contact.pause);
  }
}

}  // namespace espalier::torchrt
