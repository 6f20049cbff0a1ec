// espalierd's command line.
#pragma once

#include <string>

namespace espalier {

struct Options {
  // Log to the terminal with colours and time. The process stays attached to the terminal in either
  // case.
  bool foreground = false;
  bool shadow = false;
  bool help = false, version = false;
  std::string config;  // empty: $ESPALIER_CONF or /etc/espalier/espalier.toml
};

// Throws Error on an unknown option, a missing value or an argument.
Options parse_options(int argc, char** argv);
extern const char* const kUsage;

}  // namespace espalier
