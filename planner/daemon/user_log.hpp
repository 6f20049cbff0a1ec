// Lines of the log that one user's messages cause. A user can send messages, and come back with a new connection, as
// fast as the daemon takes them. The lines must not fill the site's disk. So each user has a number of lines a minute.
// What is left out is counted, and one line says how many these were. One thread.
#pragma once

#include <spdlog/spdlog.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <utility>

namespace espalier {

class UserLog {
 public:
  // `jobs_of`: the number of a user's jobs. Each may have a few lines of its own.
  explicit UserLog(std::function<std::size_t(uid_t)> jobs_of) : jobs_of_(std::move(jobs_of)) {}

  template <class... Arguments>
  void line(uid_t user, spdlog::level::level_enum level, spdlog::format_string_t<Arguments...> format,
            Arguments&&... arguments) {
    if (spdlog::should_log(level) && may_log(user)) spdlog::log(level, format, std::forward<Arguments>(arguments)...);
  }
  // The caller must call it every few seconds. It tells of users whose minute is over how many lines were left out.
  void tell_left_out(double now);

  static constexpr std::size_t kLines = 30, kLinesOfJob = 4;  // within a minute

 private:
  struct Minute {
    double began = 0;
    std::size_t lines = 0, left_out = 0;
  };
  bool may_log(uid_t user);
  std::function<std::size_t(uid_t)> jobs_of_;
  std::map<uid_t, Minute> minutes_;
};

}  // namespace espalier
