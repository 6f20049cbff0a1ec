#include "planner/daemon/options.hpp"

#include <getopt.h>

#include "planner/core/error.hpp"

namespace espalier {

const char* const kUsage =
    "Usage: espalierd [OPTION...]\n"
    "Planner of elastic training jobs; runs beside slurmctld.\n"
    "\n"
    "  -f, --foreground     log to the terminal; without it the log lines suit a service manager\n"
    "  -c, --config=FILE    instead of $ESPALIER_CONF or /etc/espalier/espalier.toml\n"
    "  -s, --shadow         decide and record, but act on nothing\n"
    "  -V, --version        print the version\n"
    "  -h, --help           print this\n"
    "\n"
    "SIGHUP reads the configuration again; SIGTERM and SIGINT stop.\n";

Options parse_options(int argc, char** argv) {
  static const option kLong[] = {{"foreground", no_argument, nullptr, 'f'}, {"config", required_argument, nullptr, 'c'},
                                 {"shadow", no_argument, nullptr, 's'},     {"version", no_argument, nullptr, 'V'},
                                 {"help", no_argument, nullptr, 'h'},       {nullptr, 0, nullptr, 0}};
  Options options;
  opterr = 0;
  optind = 1;
  for (int choice; (choice = getopt_long(argc, argv, "+:fc:sVh", kLong, nullptr)) != -1;) {
    switch (choice) {
      case 'f':
        options.foreground = true;
        break;
      case 'c':
        options.config = optarg;
        break;
      case 's':
        options.shadow = true;
        break;
      case 'V':
        options.version = true;
        break;
      case 'h':
        options.help = true;
        break;
      case ':':
        throw Error(std::string(argv[optind - 1]) + ": needs a value; see espalierd --help");
      default:
        throw Error(std::string(argv[optind - 1]) + ": no such option; see espalierd --help");
    }
  }
  if (optind < argc) throw Error(std::string(argv[optind]) + ": takes no arguments; see espalierd --help");
  return options;
}

}  // namespace espalier
