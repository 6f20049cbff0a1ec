// espalierd's command line.
#pragma once

#include <string>

namespace espalier {

struct Options {
  bool foreground = false;  // log to the terminal with colours and time; never leaves the terminal either way
  bool shadow = false;
  bool help = false, version = false;
  std::string config;  // empty: the usual places
};

// Throws Error on anything unknown.
Options parse_options(int argc, char** argv);
extern const char* const kUsage;

}  // namespace espalier
