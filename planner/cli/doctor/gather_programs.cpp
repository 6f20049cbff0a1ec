// Looks at the programs of this installation and at the libraries that they load.
#include <dlfcn.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "planner/cli/doctor/bounded.hpp"
#include "planner/cli/doctor/gather.hpp"
#include "planner/core/error.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr double kSeconds = 30;  // libtorch has over a gigabyte of libraries, perhaps on a network's disk

// "\tlibmpi.so.40 => /lib/libmpi.so.40 (0x...)" and "\tlibtorch_cpu.so => not found".
void read_ldd(const std::string& text, Program& program) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string library, arrow, path;
    if (!(words >> library >> arrow >> path) || arrow != "=>") continue;
    if (path == "not") program.missing.push_back(library);
    else program.libraries[library] = path;
  }
}

Program look_at(const std::string& path) {
  Program program;
  program.path = path;
  program.exists = ::access(path.c_str(), X_OK) == 0;
  if (program.exists) read_ldd(run_bounded({"ldd", path}, kSeconds).output, program);
  return program;
}

// The path of the program's library whose name begins so; empty: it loads none.
std::string library_of(const Program& program, const std::string& start) {
  for (const auto& [name, path] : program.libraries)
    if (name.starts_with(start)) return path;
  return "";
}

// Calls a library's function that describes its version, in a child process.
Learned<std::string> described(const std::string& path, const std::function<std::string(void* library)>& describe) {
  const Bounded reply = call_bounded(
      [&] {
        void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw Error(::dlerror());
        return describe(library);
      },
      kSeconds);
  if (!reply.succeeded()) return Learned<std::string>::unknown(path + ": " + reply.problem());
  return reply.output;
}

template <class Function>
Function* function_of(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) throw Error(std::string("has no ") + name);
  return reinterpret_cast<Function*>(found);
}

// Both functions may be called before the library is initialised.
std::string mpi_version(void* library) {
  std::string text(8192, '\0');  // Open MPI writes 256 bytes at most, MPICH 8192
  int size = 0;
  function_of<int(char*, int*)>(library, "MPI_Get_library_version")(text.data(), &size);
  return text.c_str();
}
std::string pmix_version(void* library) { return function_of<const char*()>(library, "PMIx_Get_version")(); }

// Debian's path of the file that all users' programs read.
constexpr const char* kMpiParameters = "/etc/openmpi/openmpi-mca-params.conf";

// The last line "btl_tcp_if_include = ..." counts.
std::string mpi_interfaces() {
  std::ifstream file(kMpiParameters);
  std::string found;
  for (std::string line; std::getline(file, line);) {
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t'; });
    constexpr std::string_view kKey = "btl_tcp_if_include=";
    if (line.starts_with(kKey)) found = line.substr(kKey.size());
  }
  return found;
}

}  // namespace

void gather_programs(Facts& facts) {
  const auto launcher = facts.plugins ? facts.plugins->argument("launcher") : std::nullopt;
  const std::string launch = launcher && !launcher->empty() ? *launcher : facts.prefix + "/bin/espalier-launch";
  facts.programs["espalier-launch"] = look_at(launch);
  facts.programs["espalier-ranks"] = look_at(launch.substr(0, launch.rfind('/') + 1) + "espalier-ranks");
  for (const char* name : {"espalier-toy", "espalier-train", "espalier-train-cuda"})
    facts.programs[name] = look_at(facts.prefix + "/bin/" + name);
  const std::string mpi = library_of(facts.programs["espalier-train"], "libmpi.so");
  const std::string pmix = library_of(facts.programs["espalier-ranks"], "libpmix.so");
  if (!mpi.empty()) facts.mpi = described(mpi, mpi_version);
  if (!mpi.empty()) facts.mpi_interfaces = mpi_interfaces();
  if (!pmix.empty()) facts.pmix = described(pmix, pmix_version);
}

}  // namespace espalier::cli::doctor
