// Work with a time limit, whatever it does: it runs in a child process, which is killed when the time is up.
//
//   const Bounded reply = run_bounded({"srun", "--help"}, 20);
//   if (!reply.succeeded()) return reply.problem();
//
// Libraries run there too: libslurm may end its process when slurm.conf is wrong, and libmunge waits without end for a
// munged that is stopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace espalier::cli::doctor {

struct Bounded {
  std::string output, errors;  // its standard output and error, at most 16 MiB of each
  bool in_time = true;
  int status = 0;          // as waitpid() gave it
  double seconds = 0;      // how long it took
  double limit = 0;        // seconds
  std::string what;        // the command's name; empty: no command
  bool succeeded() const;  // in time, with exit code 0
  // One line that says how it failed, with the last line of its errors. Only where it did not succeed.
  std::string problem() const;
};

// `command`: a program, looked for in PATH, and its arguments. Its standard input is empty.
Bounded run_bounded(const std::vector<std::string>& command, double seconds);

// Calls `work` in a child process; what it returns is the output. An exception's text becomes the errors.
Bounded call_bounded(const std::function<std::string()>& work, double seconds);

}  // namespace espalier::cli::doctor
