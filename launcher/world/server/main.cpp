// espalier-ranks: see espalier-launch(1). Started by the launcher, not by hand.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "launcher/world/server/nvml.hpp"
#include "launcher/world/server/rank_server.hpp"

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argument == "--version" || argument == "-V") return std::puts("espalier-ranks " ESPALIER_VERSION), 0;
  if (argc == 3 && argument == espalier::launcher::kPrintGpuFaults)
    return espalier::launcher::print_gpu_faults(argv[2]);
  const bool with_launcher = argument == "--with-launcher";
  if (argc > 2 || (argc == 2 && !with_launcher)) {
    std::fputs(
        "Usage: espalier-ranks [--with-launcher]\n       espalier-ranks --gpu-faults BUS-ID[,BUS-ID...]\nStarted by "
        "espalier-launch, not by hand; see espalier-launch(1).\n",
        argument == "--help" || argument == "-h" ? stdout : stderr);
    return argument == "--help" || argument == "-h" ? 0 : 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  try {
    espalier::launcher::RankServer server(espalier::launcher::rank_server_settings(with_launcher));
    return server.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "espalier: ranks: %s\n", error.what());
    return 2;
  }
}
