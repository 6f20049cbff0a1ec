#include "planner/wire/name_lookup.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "planner/core/error.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::wire {

NameLookup::NameLookup(Loop& loop, std::function<Endpoint()> look_up, std::function<void(const Answer&)> done) {
  struct Shared {
    Descriptor wake;
    Answer answer;
  };
  const auto shared = std::make_shared<Shared>();
  shared->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->wake) throw Error(std::string("no event descriptor: ") + std::strerror(errno));
  readable_ = loop.on_readable(shared->wake.get(), [shared, done = std::move(done)] {
    // Reading the count orders the thread's writes before this callback's reads.
    std::uint64_t count = 0;
    if (::read(shared->wake.get(), &count, sizeof count) == sizeof count) done(shared->answer);
  });
  // Signals must reach the loop's thread only, so the new thread blocks them all.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([shared, look_up = std::move(look_up)] {
      try {
        shared->answer.endpoint = look_up();
      } catch (const std::exception& error) {
        shared->answer.why_not = error.what();
      }
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t told = ::write(shared->wake.get(), &one, sizeof one);
    }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(std::string("no thread to look up a name: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace espalier::wire
