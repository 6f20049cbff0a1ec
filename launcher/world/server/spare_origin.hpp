// Whether a spare is the program itself, and not a program that some script has started.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace espalier::launcher {

// Reads one byte from a socket with SO_PASSCRED, without waiting. The process that wrote it, as the kernel tells; -1
// when there is none.
pid_t sender_of_byte(int socket);

// Whether the command line of process `pid` is `program`, or `program` behind its interpreter of "#!". Example: the
// program "./train.py" runs as "/usr/bin/python3 ./train.py".
bool is_command_of(pid_t pid, const std::vector<std::string>& program);

}  // namespace espalier::launcher
