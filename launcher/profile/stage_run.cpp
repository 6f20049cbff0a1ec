#include "launcher/profile/stage_run.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "planner/core/error.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

constexpr std::size_t kMostText = 8 << 20;
constexpr wire::Loop::Milliseconds kLongest{600'000};

// Gone with the last process that has it open.
wire::Descriptor in_memory(const std::string& text) {
  wire::Descriptor file(::memfd_create("espalier-plan", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Error(std::string("profile: the plan cannot be kept in memory: ") + std::strerror(errno));
  return file;
}

}  // namespace

StageRun::StageRun(wire::Loop& loop, std::vector<std::string> program, const std::string& plan, int stage, int replica,
                   std::function<void(std::optional<Json>)> done) {
  const wire::Descriptor file = in_memory(plan);
  for (const std::string& word :
       {std::string("--profile-plan"), "/proc/self/fd/" + std::to_string(file.get()), std::string("--stage"),
        std::to_string(stage), std::string("--replica"), std::to_string(replica)})
    program.push_back(word);
  Child::Traits traits;
  traits.inherited = file.get();
  child_ = std::make_unique<ChildOutput>(
      loop, program, clean_environment({}), traits, kMostText, kLongest,
      [done = std::move(done)](const std::optional<std::string>& text, int status) {
        std::optional<Json> profile;
        if (!text) std::fprintf(stderr, "espalier: profile: the program took too long or printed too much\n");
        else if (status != 0)
          std::fprintf(stderr, "espalier: profile: the program ended with exit code %d\n", exit_code(status));
        else try {
            profile = parse_json(*text);
          } catch (const std::exception& error) {
            std::fprintf(stderr, "espalier: profile: what the program printed is no profile: %s\n", error.what());
          }
        done(std::move(profile));
      });
}

}  // namespace espalier::launcher
