// Whether a spare is the program itself, and not a program that some script has started.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace espalier::launcher {

struct FirstWord {
  pid_t writer = -1;  // as the kernel tells; -1: nobody has written
  char byte = 0;
};

// Reads one byte from a socket with SO_PASSCRED, without waiting.
FirstWord first_word(int socket);

// Whether the command line of process `pid` is `program`, or `program` behind its interpreter of "#!". Example: the
// program "./train.py" runs as "/usr/bin/python3 ./train.py".
bool is_command_of(pid_t pid, const std::vector<std::string>& program);

}  // namespace espalier::launcher
