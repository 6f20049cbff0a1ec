// Which GPUs are safe to train on, by what NVIDIA's management library says of them. Their errors are read from the
// stand-in for that library (tests/gpu/nvml), in a process of its own as the rank server does.
#include "launcher/world/server/gpu_errors.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/world/server/gpu_check.hpp"
#include "launcher/world/server/nvml.hpp"
#include "planner/core/error.hpp"
#include "tests/unit/loop_until.hpp"
#include "tests/unit/plan_files.hpp"

namespace espalier::launcher {
namespace {

using State = GpuErrors::State;

GpuErrors capable(int major, int minor) {
  GpuErrors gpu;
  gpu.state = State::reached;
  gpu.major = major;
  gpu.minor = minor;
  return gpu;
}
const GpuErrors v100 = capable(7, 0), t4 = capable(7, 5), a100 = capable(8, 0), a40 = capable(8, 6),
                l40s = capable(8, 9), h100 = capable(9, 0), b200 = capable(10, 0), rtx_pro = capable(12, 0);

const std::string kNone, kA = "0000:41:00.0", kB = "0000:a1:00.0";

// A look at GPUs 0 (kA) and 3 (kB) of this node.
struct Look {
  // `answers`: of the stand-in.
  explicit Look(const std::string& answers, bool library = true,
                std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    const auto tools = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "nvml";
    ::setenv("NVML_STANDIN", folder.write("answers", answers).c_str(), 1);
    const char* const path = std::getenv("LD_LIBRARY_PATH");
    const std::string before = path == nullptr ? "" : path;
    ::setenv("LD_LIBRARY_PATH", library ? tools.c_str() : "/nonexistent", 1);
    run({(tools / "gpu_faults").string()}, limit);
    if (path == nullptr) ::unsetenv("LD_LIBRARY_PATH");
    else ::setenv("LD_LIBRARY_PATH", before.c_str(), 1);
    ::unsetenv("NVML_STANDIN");
  }
  Look(const std::vector<std::string>& command, std::chrono::milliseconds limit) { run(command, limit); }

  void run(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
    const std::string errors = folder.write("stderr", "");
    const int out = ::open(errors.c_str(), O_WRONLY | O_CLOEXEC), kept = ::fcntl(2, F_DUPFD_CLOEXEC, 3);
    ::dup2(out, 2);
    const auto begin = std::chrono::steady_clock::now();
    {
      wire::Loop loop;
      int calls = 0;
      const GpuCheck check(
          loop, command, "n1", {{0, kA}, {3, kB}},
          [&](std::vector<wire::GpuFault> found) {
            ++calls;
            faults = std::move(found);
          },
          limit);
      CHECK_FALSE(check.done());
      done = test::until(
                 loop, [&] { return check.done(); }, std::chrono::seconds(100)) &&
             calls == 1;
    }
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ::dup2(kept, 2);
    ::close(kept);
    ::close(out);
    std::stringstream text;
    text << std::ifstream(errors).rdbuf();
    said = text.str();
  }
  // As in "3: TEXT", in lines.
  std::string told() const {
    std::string list;
    for (const wire::GpuFault& fault : faults) list += std::to_string(fault.gpu) + " " + fault.text + "\n";
    return list;
  }

  plan_files::Folder folder;
  std::vector<wire::GpuFault> faults;
  bool done = false;
  double seconds = 0;
  std::string said;
};

}  // namespace

TEST_CASE("a GPU without errors, or that nobody can ask about, has no fault") {
  for (const GpuErrors& gpu : {GpuErrors{}, v100, t4, a100, a40, l40s, h100, b200, rtx_pro, capable(0, 0)})
    CHECK(fault_of(gpu) == kNone);
  GpuErrors unknown = a40;
  unknown.state = State::unknown;
  unknown.remapping_pending = true;
  CHECK(fault_of(unknown) == kNone);
}

TEST_CASE("what is no bus id is not asked about") {
  for (const char* wrong : {"x", "0", "0000:41:00", "0000:41:00.0,x", "0000:41:00.0 "})
    CHECK(print_gpu_faults(wrong) == 2);
}

TEST_CASE("a lost GPU and one that must be reset are faulty, whatever they are") {
  for (GpuErrors gpu : {v100, a100, l40s, capable(0, 0)}) {
    gpu.state = State::lost;
    CHECK(fault_of(gpu) == "its driver has lost it; reboot or drain the node");
    gpu.state = State::needs_reset;
    CHECK(fault_of(gpu) == "its driver says that it must be reset before it is used; reset the GPU or drain the node");
  }
}

TEST_CASE("errors that were contained forbid nothing on Ampere and newer") {
  for (GpuErrors gpu : {a100, a40, l40s, h100, b200, rtx_pro}) {
    gpu.uncorrectable = 7;
    gpu.rows_remapped = 3;
    CHECK(fault_of(gpu) == kNone);
  }
}

TEST_CASE("a row that waits to be remapped is a fault where the GPU cannot take its page out of use meanwhile") {
  for (GpuErrors gpu : {a100, h100, b200, capable(10, 3)}) {
    gpu.remapping_pending = true;
    gpu.uncorrectable = 1;
    CHECK(fault_of(gpu) == kNone);
  }
  for (GpuErrors gpu : {a40, l40s, rtx_pro, capable(8, 7)}) {
    gpu.remapping_pending = true;
    CHECK(fault_of(gpu) == "a row of its memory has errors and waits to be remapped; reset the GPU or drain the node");
    gpu.uncorrectable = 1;
    CHECK(fault_of(gpu) ==
          "a row of its memory has errors and waits to be remapped (1 uncorrectable ECC error since its "
          "driver was loaded); reset the GPU or drain the node");
    gpu.uncorrectable = 2;
    gpu.rows_remapped = 5;
    CHECK(fault_of(gpu) ==
          "a row of its memory has errors and waits to be remapped (2 uncorrectable ECC errors since its "
          "driver was loaded, 5 rows remapped before); reset the GPU or drain the node");
  }
  GpuErrors unknown = capable(0, 0);
  unknown.remapping_pending = true;
  CHECK(fault_of(unknown) == kNone);
}

TEST_CASE("a row that could not be remapped is a fault on every GPU that remaps rows") {
  for (GpuErrors gpu : {a100, a40, h100, capable(0, 0)}) {
    gpu.remapping_failed = true;
    gpu.rows_remapped = 1;
    CHECK(fault_of(gpu) ==
          "a row of its memory has errors and could not be remapped (1 row remapped before); drain the "
          "node and have the GPU replaced");
  }
}

TEST_CASE("on Volta and older an uncorrectable error, or a page that waits to be retired, is a fault") {
  for (GpuErrors gpu : {v100, t4, capable(6, 0)}) {
    gpu.uncorrectable = 2;
    CHECK(fault_of(gpu) ==
          "it cannot be used before a reset (2 uncorrectable ECC errors since its driver was loaded); "
          "reset the GPU or drain the node");
    gpu.pages_pending = true;
    gpu.uncorrectable = 0;
    CHECK(fault_of(gpu) == "a page of its memory has errors and waits to be retired; reset the GPU or drain the node");
  }
  GpuErrors ampere = a100;
  ampere.pages_pending = true;  // no such GPU retires pages
  CHECK(fault_of(ampere) == kNone);
}

TEST_CASE("what the driver asks for before the GPU is used again counts on every GPU") {
  GpuErrors gpu = h100;
  gpu.uncorrectable = 1;
  gpu.recovery_action = 1;
  CHECK(fault_of(gpu) ==
        "its driver asks for a reset of the GPU (1 uncorrectable ECC error since its driver was "
        "loaded); do that or drain the node");
  gpu.uncorrectable = 0;
  gpu.recovery_action = 2;
  CHECK(fault_of(gpu) == "its driver asks for a reboot of the node; do that or drain the node");
  for (const std::uint32_t other : {3u, 4u, 5u, 6u, 7u, 8u}) {  // to drain it, or numbers that differ between drivers
    gpu.recovery_action = other;
    gpu.remapping_pending = true;  // on an H100, whose pages with errors are out of use meanwhile
    CHECK(fault_of(gpu) == kNone);
  }
}

TEST_CASE("a divided GPU gets no verdict") {
  GpuErrors gpu = v100;
  gpu.mig = true;
  gpu.uncorrectable = 4;
  gpu.remapping_failed = gpu.pages_pending = true;
  gpu.recovery_action = 1;
  CHECK(fault_of(gpu) == kNone);
}

TEST_CASE("the library is asked about the GPUs of the job, and its answers are told by Slurm's numbers") {
  const Look look("* " + kA + " mig=0 capability=8.0 uncorrectable=4 pending=1 rows=2 action=0\n" +  //
                  "elsewhere " + kB + " capability=8.6\n" +                                          //
                  "* " + kB + " mig=0 capability=8.6 uncorrectable=3 pending=1 rows=2 action=0\n" +  //
                  "* 0000:ff:00.0 capability=7.0 uncorrectable=9\n");
  CHECK(look.done);
  CHECK(look.told() ==
        "3 (" + kB +
            "): a row of its memory has errors and waits to be remapped (3 uncorrectable ECC "
            "errors since its driver was loaded, 2 rows remapped before); reset the GPU or drain the node\n");
  CHECK(look.said == "");
}

TEST_CASE("each answer of the library comes to its fault") {
  const auto told_of = [](const std::string& words) {
    const Look look("* " + kA + " " + words + "\n");
    CHECK(look.done);
    CHECK(look.said == "");
    return look.faults.empty() ? "" : look.faults.front().text;
  };
  const std::string head = "(" + kA + "): ";
  CHECK(told_of("handle_result=15") == head + "its driver has lost it; reboot or drain the node");
  CHECK(told_of("capability=9.0 uncorrectable_result=15") == head + "its driver has lost it; reboot or drain the node");
  CHECK(told_of("capability=9.0 pending_result=16").starts_with(head + "its driver says that it must be reset"));
  CHECK(told_of("capability=9.0 pending=0 failed=1").starts_with(head + "a row of its memory has errors and could"));
  CHECK(told_of("capability=7.0 pages=1").starts_with(head + "a page of its memory"));
  CHECK(told_of("capability=7.0 uncorrectable=1").starts_with(head + "it cannot be used before a reset"));
  CHECK(told_of("capability=9.0 action=1").starts_with(head + "its driver asks for a reset of the GPU"));
  CHECK(told_of("capability=9.0 pending=1 action=4") == "");
  CHECK(told_of("capability=7.0 uncorrectable=1 mig=1") == "");
  CHECK(told_of("capability=8.6") == "");                            // without ECC
  CHECK(told_of("capability=8.6 handle_result=4 pending=1") == "");  // no permission
}

TEST_CASE("without the library, or where it does not start, there is no verdict and nothing is said") {
  const std::string faulty = "* " + kA + " capability=7.0 uncorrectable=1\n";
  CHECK(Look(faulty).faults.size() == 1);
  for (const Look& look : {Look(faulty, false), Look("* init result=9\n" + faulty), Look("")}) {
    CHECK(look.done);
    CHECK(look.faults.empty());
    CHECK(look.said == "");
  }
}

TEST_CASE("a library that hangs or crashes costs a limited time, and is told of") {
  const std::string advice =
      ", and training starts without it; see whether nvidia-smi works there, or set health.gpu_errors = false\n";
  const std::string faulty = "* " + kA + " capability=7.0 uncorrectable=1\n";
  const auto limit = std::chrono::milliseconds(1000);
  SUBCASE("it hangs when it starts") {
    const Look look("* init hang\n" + faulty, true, limit);
    CHECK(look.done);
    CHECK(look.faults.empty());
    CHECK(look.seconds >= 0.9);  // a timer may be early by its resolution
    CHECK(look.seconds < 30);
    CHECK(look.said == "espalier: ranks: n1: the look at the errors of its GPUs has not answered within 1 s" + advice);
  }
  SUBCASE("it hangs at a question") {
    const Look look(faulty + "* " + kB + " capability=8.0 hang=pending\n", true, limit);
    CHECK(look.done);
    CHECK(look.faults.empty());
    CHECK(look.seconds < 30);
  }
  SUBCASE("it crashes") {
    const Look look("* init crash\n" + faulty);
    CHECK(look.done);
    CHECK(look.faults.empty());
    CHECK(look.said == "espalier: ranks: n1: the look at the errors of its GPUs was ended by signal 11" + advice);
  }
  SUBCASE("the program fails") {
    const Look look({"/bin/sh", "-c", "echo " + kA + " bad; exit 3"}, limit);
    CHECK(look.done);
    CHECK(look.faults.empty());
    CHECK(look.said == "espalier: ranks: n1: the look at the errors of its GPUs failed with exit code 3" + advice);
  }
  SUBCASE("the program is not there") {
    wire::Loop loop;
    CHECK_THROWS_AS(GpuCheck(loop, {"/nonexistent/program"}, "n1", {{0, kA}}, [](const auto&) {}), Error);
  }
}

TEST_CASE("what the look prints is bounded, and of the job's GPUs only") {
  const Look look({"/bin/sh", "-c",
                   "echo 0000:ff:00.0 of another job; echo " + kB +
                       " $(head -c 1000 /dev/zero | tr '\\0' x); yes | head -c 999999"},
                  std::chrono::seconds(60));
  CHECK(look.done);
  REQUIRE(look.faults.size() == 1);
  CHECK(look.faults[0].gpu == 3);
  CHECK(look.faults[0].text.size() == 300 + kB.size() + 4);
}

}  // namespace espalier::launcher
