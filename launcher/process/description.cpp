#include "launcher/process/description.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "planner/core/error.hpp"
#include "planner/core/json.hpp"
#include "planner/core/text_limits.hpp"
#include "planner/wire/descriptor.hpp"

namespace espalier::launcher {
namespace {

constexpr std::string_view kDescribes = "espalier: describes itself", kProfiles = "espalier: profiles stages";
// Of the arguments that may name a script, and of a description with a plan of some thousand GPUs.
constexpr std::size_t kMostFiles = 8, kMostText = 8 << 20;

bool holds(std::string_view marker, const std::string& path) {
  const wire::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return false;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (memory == MAP_FAILED) return false;
  const bool found = ::memmem(memory, size, marker.data(), marker.size()) != nullptr;
  ::munmap(memory, size);
  return found;
}

// As execvp() finds it. Empty: nowhere.
std::string path_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* variable = std::getenv("PATH");
  std::istringstream path(variable == nullptr ? "/usr/local/bin:/usr/bin:/bin" : variable);
  for (std::string directory; std::getline(path, directory, ':');) {
    std::string found = (directory.empty() ? "." : directory) + "/" + program;
    if (::access(found.c_str(), X_OK) == 0) return found;
  }
  return "";
}

bool says(std::string_view marker, const std::vector<std::string>& program) {
  if (program.empty()) return false;
  if (holds(marker, path_of(program.front()))) return true;
  for (std::size_t i = 1; i < std::min(program.size(), kMostFiles); ++i)
    if (holds(marker, program[i])) return true;
  return false;
}

}  // namespace

bool describes_itself(const std::vector<std::string>& program) { return says(kDescribes, program); }

void must_profile_stages(const std::vector<std::string>& program) {
  if (!describes_itself(program) || !says(kProfiles, program))
    throw Error(program.front() + ": does not measure stages by itself; espalier-train does, and programs that say \"" +
                std::string(kProfiles) + "\" (man espalier-launch)");
}

ProgramDescription::ProgramDescription(wire::Loop& loop, std::vector<std::string> program,
                                       const std::vector<std::string>& environment, wire::Loop::Milliseconds limit,
                                       std::function<void(std::optional<wire::Description>)> told)
    : told_(std::move(told)) {
  const wire::Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  program.emplace_back("--describe");
  Child::Traits traits;
  traits.errors = null.get();  // its ranks say the same again
  child_ = std::make_unique<ChildOutput>(loop, program, environment, traits, kMostText, limit,
                                         [this](const std::optional<std::string>& text, int) { ended(text); });
}

ProgramDescription::~ProgramDescription() = default;

void ProgramDescription::ended(const std::optional<std::string>& text) {
  std::optional<wire::Description> description;
  try {
    if (text && !text->empty())
      description = wire::from_frame<wire::Description>({wire::Description::type, parse_json(*text)});
  } catch (const std::exception&) {
    // not what a description looks like: the ranks' hello tells
  }
  std::exchange(told_, nullptr)(std::move(description));
}

}  // namespace espalier::launcher
