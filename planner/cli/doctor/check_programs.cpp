// The programs that nodes run, the libraries that they load, and the network between them.
#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "planner/cli/doctor/checks.hpp"
#include "planner/core/hostlist.hpp"

namespace espalier::cli::doctor {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const Program* program_of(const Facts& facts, const std::string& name) {
  const auto found = facts.programs.find(name);
  return found != facts.programs.end() && found->second.exists ? &found->second : nullptr;
}

Finding absent(const Facts& facts, const std::string& name) {
  const auto found = facts.programs.find(name);
  const std::string path = found == facts.programs.end() ? name : found->second.path;
  if (facts.slurm && facts.is_node())
    return fault(path + " is not on this node", {command("make install  # on every node")});
  return skipped(path + " is not on this host, which is none of the nodes; run espalier doctor on a node");
}

Finding helpers(const Facts& facts) {
  for (const char* name : {"espalier-launch", "espalier-ranks", "espalier-toy"}) {
    const Program* program = program_of(facts, name);
    if (program == nullptr) return absent(facts, name);
    if (!program->missing.empty())
      return fault(program->path + " does not start: " + joined(program->missing) + " not found",
                   {command("ldd " + program->path), command("apt-get install libpmix2 libevent-2.1-7 libmunge2")});
  }
  return ok("espalier-launch, espalier-ranks and espalier-toy find their libraries");
}

bool is_torch(const std::string& library) {
  for (const char* start : {"libtorch", "libc10", "libcudart", "libcupti", "libnccl", "libgomp"})
    if (library.starts_with(start)) return true;
  return false;
}

Finding torch_of(const Facts& facts, const std::string& name) {
  const Program* program = program_of(facts, name);
  if (program == nullptr) return absent(facts, name);
  std::vector<std::string> missing;
  std::copy_if(program->missing.begin(), program->missing.end(), std::back_inserter(missing), is_torch);
  if (!missing.empty())
    return fault(program->path + " does not find " + joined(missing) + " of torch",
                 {{"/etc/ld.so.conf.d/espalier.conf", "TORCH_HOME/lib  # then: ldconfig", ""},
                  command("make clean && make install TORCH_HOME=...  # a libtorch that every node has at that path")});
  for (const auto& [library, path] : program->libraries)
    if (library.starts_with("libtorch")) return ok(name + " finds torch in " + path.substr(0, path.rfind('/')));
  return ok(name + " finds all its libraries");
}

Finding torch(const Facts& facts) { return torch_of(facts, "espalier-train"); }

Finding torch_cuda(const Facts& facts) {
  if (program_of(facts, "espalier-train-cuda") == nullptr)
    return skipped("espalier-train-cuda is not installed on this host");
  return torch_of(facts, "espalier-train-cuda");
}

Finding mpi(const Facts& facts) {
  const Program* trainer = program_of(facts, "espalier-train");
  if (trainer == nullptr) return absent(facts, "espalier-train");
  for (const std::string& library : trainer->missing)
    if (library.starts_with("libmpi"))
      return fault(trainer->path + " does not find " + library,
                   {command("apt-get install libopenmpi3  # or the Open MPI that it was built with")});
  if (!facts.mpi)
    return facts.mpi.why == "was not looked at" ? skipped("espalier-train loads no MPI") : fault(facts.mpi.why);
  const std::string text = facts.mpi->substr(0, facts.mpi->find(','));
  const auto at = text.find("Open MPI v");
  const std::vector<Remedy> remedies{command("make clean && make install MPICC=/path/to/openmpi/bin/mpicc")};
  if (at == std::string::npos)
    return warning(text + " is no Open MPI: it must start through PMIx, and was not tried with Espalier", remedies);
  int major = 0, minor = 0;
  const char* begin = text.data() + at + 10;
  const auto read = std::from_chars(begin, text.data() + text.size(), major);
  std::from_chars(std::min(read.ptr + 1, text.data() + text.size()), text.data() + text.size(), minor);
  if (major < 4 || (major == 4 && minor < 1)) return fault(text + " is too old: 4.1 is the first that works", remedies);
  if (major > 6) return warning(text + " is newer than the releases that Espalier was tried with (4.1, 5.0 and 6.0)");
  return ok(text + (facts.pmix ? "; " + facts.pmix->substr(0, facts.pmix->find(',')) : ""));
}

bool within(const std::string& address, const std::string& network) {
  const auto slash = network.find('/');
  in_addr a{}, n{};
  int bits = 32;
  if (slash != std::string::npos) std::from_chars(network.data() + slash + 1, network.data() + network.size(), bits);
  if (::inet_pton(AF_INET, address.c_str(), &a) != 1 || ::inet_pton(AF_INET, network.substr(0, slash).c_str(), &n) != 1)
    return false;
  const std::uint32_t mask = bits <= 0 ? 0 : ~std::uint32_t{0} << (32 - std::min(bits, 32));
  return ((ntohl(a.s_addr) ^ ntohl(n.s_addr)) & mask) == 0;
}

Finding network(const Facts& facts) {
  const std::string& cidr = facts.config.network;
  // Debian's Open MPI 6 comes so.
  if (cidr.empty() && facts.mpi_interfaces == "lo")
    return fault(
        "Open MPI has ranks talk on the loopback interface only (btl_tcp_if_include): those of different nodes do not "
        "reach each other",
        {{facts.config_path(), "network = \"10.0.0.0/16\"  # the nodes' own", "[launch]"}});
  if (cidr.empty())
    return ok("launch.network is not set: launchers are reached by their nodes' names, and MPI chooses");
  if (!facts.addresses) return skipped(facts.addresses.why);
  std::vector<std::string> unknown, outside;
  for (const auto& [node, addresses] : *facts.addresses) {
    if (addresses.empty()) unknown.push_back(node);
    else if (std::none_of(addresses.begin(), addresses.end(), [&](const std::string& a) { return within(a, cidr); }))
      outside.push_back(node);
  }
  if (!unknown.empty())
    return warning("no address is known here of " + fold_hosts(unknown),
                   {command("getent ahostsv4 " + unknown.front())});
  if (outside.empty()) return ok("the nodes' addresses are in launch.network " + cidr);
  // A second network of the nodes, as for MPI, has names of its own.
  return warning("the names of " + fold_hosts(outside) + " have no address in launch.network " + cidr +
                     ": right only where these nodes have another interface in it",
                 {{facts.config_path(), "network = \"\"", "[launch]"}});
}

}  // namespace

std::span<const Check> program_checks() {
  static const Check table[] = {
      {"programs", Audience::everyone, helpers},      {"torch", Audience::everyone, torch},
      {"torch-cuda", Audience::everyone, torch_cuda}, {"mpi", Audience::everyone, mpi},
      {"network", Audience::administrator, network},
  };
  return table;
}

}  // namespace espalier::cli::doctor
