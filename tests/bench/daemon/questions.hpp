// What users and monitoring ask of espalierd, at a steady rate: some threads, a connection for each question, as the
// command-line tool does it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "planner/core/job.hpp"

namespace espalier::bench {

class Questions {
 public:
  struct Asker {
    uid_t uid = 0;
    JobId job = 0;  // of this user
  };
  // `per_second` in all. `askers` take turns; the last fifth of the questions is the administrator's.
  Questions(std::string socket, uid_t planner_uid, double per_second, std::vector<Asker> askers, unsigned seed);
  ~Questions() { stop(); }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  void stop();
  // After stop(): milliseconds to the answer, by what was asked.
  const std::map<std::string, std::vector<double>>& milliseconds() const { return milliseconds_; }
  int failed() const { return failed_; }

 private:
  void ask(int thread, int threads);

  std::string socket_;
  uid_t planner_uid_;
  double per_second_;
  std::vector<Asker> askers_;
  unsigned seed_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<std::string, std::vector<double>> milliseconds_;
  int failed_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace espalier::bench
