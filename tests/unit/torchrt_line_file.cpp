#include "torchrt/line_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_safetensors_cases.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

// Files of this process may have so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit tight{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

struct File {
  TestFolder folder;
  std::string path = folder / "log", said;
  LineFile::Tell tell = [this](const std::string& what) { said += what + "\n"; };
  LineFile file{"metrics.path", path, LineFile::Absent::is_error, tell};
};

}  // namespace

TEST_CASE(
    "lines that cannot be written are lost and told once, a half-written one is cut off, and later ones are written") {
  File one;
  one.file.append("first\n");
  {
    const FileSizeLimit limit(10);  // "first\n" and four bytes of the next line
    one.file.append("second\n");
    CHECK(one.said ==
          "metrics.path: " + one.path +
              " cannot be written: File too large; training goes on, and lines are lost until it can be written: make "
              "room there, or mend its file system\n");
    one.file.append("third\nfourth\n");
  }
  one.said.clear();
  one.file.append("fifth\n");
  CHECK(one.said == "metrics.path: " + one.path + " can be written again; 3 lines were lost\n");
  one.file.append("sixth\n");
  CHECK(text_of_file(one.path) == "first\nfifth\nsixth\n");
}

TEST_CASE("a half-written line that cannot be cut off ends where the next line begins") {
  const UniqueFd memory(::memfd_create("lines", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  LineFile file("metrics.path", path, LineFile::Absent::is_error, [](const std::string&) {});
  {
    const FileSizeLimit limit(4);
    file.append("second\n");
  }
  file.append("third\n");
  file.append("fourth\n");
  CHECK(text_of_file(path) == "seco\nthird\nfourth\n");
}

TEST_CASE("the number of lost lines is told at the end as well") {
  std::string said;
  {
    LineFile file("profile.path", "/dev/full", LineFile::Absent::is_error,
                  [&](const std::string& what) { said = what; });
    file.append("a\n");
  }
  CHECK(said == "profile.path: /dev/full: 1 line was lost");
}

TEST_CASE("a file that cannot be opened is an error at a job's start, and is waited for where a job already trains") {
  const TestFolder folder;
  const std::string path = folder / "not-yet/log";
  CHECK_THROWS_WITH_AS(LineFile("profile.path", path, LineFile::Absent::is_error),
                       doctest::Contains("cannot be written: No such file or directory; choose another path"), Error);
  std::string said;
  LineFile file("profile.path", path, LineFile::Absent::is_told, [&](const std::string& what) { said = what; });
  file.append("a\n");
  CHECK(said.find("cannot be written: No such file or directory; training goes on") != std::string::npos);
  std::filesystem::create_directory(folder / "not-yet");
  file.append("b\n");
  CHECK(said.find("can be written again; 1 line was lost") != std::string::npos);
  CHECK(text_of_file(path) == "b\n");
}
