#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_safetensors_cases.hpp"
#include "torchrt/input_file.hpp"
#include "torchrt/unreadable_error.hpp"

using namespace espalier;
using namespace espalier::torchrt;

TEST_CASE("a file is read at any position, up to its last byte") {
  const TestFolder folder;
  std::ofstream(folder / "x") << "0123456789";
  const InputFile file(folder / "x", "data file");
  CHECK(file.size() == 10);
  std::string four(4, ' ');
  file.read(6, std::as_writable_bytes(std::span(four)));
  CHECK(four == "6789");
  CHECK_THROWS_WITH_AS(file.read(8, std::as_writable_bytes(std::span(four))),
                       ("data file " + (folder / "x") +
                        ": byte 10 is not there any more: the file was truncated while it was in use; restore it, "
                        "then start again")
                           .c_str(),
                       Error);
}

TEST_CASE("a byte that the system cannot read is an Error with its reason") {
  const InputFile memory("/proc/self/mem", "data file");  // nothing is mapped at its beginning: EIO
  std::array<std::byte, 8> bytes{};
  CHECK_THROWS_WITH_AS(memory.read(0, bytes),
                       "data file /proc/self/mem: byte 0 cannot be read: Input/output error; look at the file system, "
                       "then start again",
                       UnreadableError);
  CHECK_THROWS_AS(static_cast<void>(memory.text()), UnreadableError);
}

TEST_CASE("a file's text goes to its end, wherever that is now") {
  const TestFolder folder;
  const std::string long_text(200'000, 'x');
  std::ofstream(folder / "x") << long_text;
  const InputFile file(folder / "x", "file");
  CHECK(file.text() == long_text);
  std::ofstream(folder / "x") << "short";
  CHECK(file.text() == "short");
  std::ofstream(folder / "x") << "";
  CHECK(file.text().empty());
}

TEST_CASE("a folder is no file to read, nor is what is not there") {
  CHECK_THROWS_WITH_AS(InputFile("/tmp", "data file"), "data file /tmp: is not a regular file", Error);
  CHECK_THROWS_WITH_AS(InputFile("/nonexistent/x", "data file"), "data file /nonexistent/x: No such file or directory",
                       Error);
}
