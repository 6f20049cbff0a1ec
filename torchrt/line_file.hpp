// A file that gets lines while a job trains: metrics, profiles, traces. A training does not end for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "torchrt/device/unique_fd.hpp"

namespace espalier::torchrt {

// For one thread. One process writes it at a time, but the next generation's may have it open already.
class LineFile {
 public:
  using Tell = std::function<void(const std::string&)>;
  // What is done where the file cannot be opened.
  enum class Absent {
    is_error,  // the constructor throws Error: at a job's start
    is_told    // the lines are lost until it can be opened: where a job already trains
  };
  // Opens the file, or makes it. `key`: of the configuration, for messages. `tell` gets messages for the user; empty:
  // they go to standard error.
  LineFile(std::string key, std::string path, Absent absent, Tell tell = {});
  // Says how many lines were lost, if the last ones were.
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Appends whole lines, each with its newline, in one write(2) where the system takes them at once. Lines that cannot
  // be written are lost, and a half-written one is cut off again. The user is told once, and once more when lines can
  // be written again. Throws nothing.
  void append(const std::string& lines);
  void say(const std::string& what) const { tell_(what); }  // where the file's messages go
  bool empty() const;                                       // it holds no line yet

 private:
  bool open();
  int write(const std::string& lines);
  void cut(std::size_t bytes);
  std::string lost() const;

  std::string key_, path_;
  Tell tell_;
  UniqueFd file_;
  bool torn_ = false;  // it ends with a part of a line that could not be cut off
  std::int64_t lost_ = 0;
};

}  // namespace espalier::torchrt
