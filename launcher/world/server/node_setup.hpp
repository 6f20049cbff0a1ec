// The user's program that prepares a node for ranks, such as one that loads modules or makes folders (node_setup= of
// --elastic). A rank server runs it once, before its first rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/awake_timer.hpp"
#include "launcher/process/child.hpp"
#include "launcher/world/server/rank_output.hpp"

namespace espalier::launcher {

// What a node setup wants changed in the environment of each rank, in the words of Slurm's TaskProlog (slurm.conf(5)).
class EnvironmentChanges {
 public:
  // Reads a line of the program's output: "export NAME=value" or "unset NAME"; the last line about a name counts.
  // False: it is another line. Throws Error: the name is no name, or is one that the launcher sets for ranks, or the
  // changes exceed 1 MiB.
  bool take(const std::string& line);
  bool has(const std::string& name) const { return values_.contains(name); }
  // `environment` as the changes leave it; what is exported stands last, by name.
  std::vector<std::string> applied(const std::vector<std::string>& environment) const;

 private:
  void set(const std::string& name, std::optional<std::string> value);
  std::map<std::string, std::optional<std::string>> values_;  // nullopt: unset
  std::size_t bytes_ = 0;
};

class NodeSetup {
 public:
  struct Callbacks {
    std::function<void()> ready;  // it ended with exit code 0
    // It ended otherwise, said something wrong, or took too long. If it runs still it ends with this object.
    std::function<void(const std::string& why)> failed;
  };
  // Runs on the loop's thread. The program gets `environment`, no input, and `limit` of time, which does not run while
  // Slurm has the job suspended. Lines "print TEXT" of its output go to standard output. Its standard error is this
  // process's. Throws Error when it cannot be started.
  NodeSetup(wire::Loop& loop, const std::string& program, const std::vector<std::string>& environment,
            std::chrono::seconds limit, Callbacks callbacks, AwakeLooks looks = {});

  const EnvironmentChanges& changes() const { return changes_; }

 private:
  void printed(const std::string& text);
  void said(const std::string& line);
  void ended(int status);
  void fail(const std::string& why);

  const std::string program_;
  Callbacks callbacks_;
  EnvironmentChanges changes_;
  std::string line_, problem_;
  std::unique_ptr<RankOutput> output_;
  std::unique_ptr<Child> process_;
  AwakeTimer limit_;
};

}  // namespace espalier::launcher
