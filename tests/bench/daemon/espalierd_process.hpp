// espalierd as a process of the benchmark's: SlurmUser's, with the answers of slurm_answers.c preloaded.
#pragma once

#include <sys/types.h>

#include <string>

namespace espalier::bench {

class EspalierdProcess {
 public:
  struct Program {
    std::string path, answers, table, log;
    uid_t user = 0;
    gid_t group = 0;
  };
  // Sets the environment of this process, for the child: call it before there are threads.
  explicit EspalierdProcess(Program program);
  ~EspalierdProcess() { kill(); }
  EspalierdProcess(const EspalierdProcess&) = delete;
  EspalierdProcess& operator=(const EspalierdProcess&) = delete;

  void start();  // throws Error
  void kill();   // SIGKILL
  double cpu_seconds() const;
  double peak_mib() const;  // of resident memory

 private:
  Program program_;
  pid_t pid_ = -1;
};

}  // namespace espalier::bench
