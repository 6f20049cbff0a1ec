// Where workers log in on the stage. A worker's hello says which generation it belongs to, and its line goes there.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/conform/line.hpp"
#include "planner/wire/capabilities.hpp"

namespace espalier::launcher::conform {

class StageDoor {
 public:
  // What a generation on the stage is told.
  struct Callbacks {
    std::function<void(std::unique_ptr<Line>, const wire::WorkerHello&)> adopt;  // its worker has said hello; may throw
    std::function<void()> came;                                                  // a frame has come on a line
    std::function<void(const std::string& why)> broken;  // a worker that no generation knows broke the protocol
  };
  // A generation that is on the stage. It hears of its workers as long as this object is there.
  class Entry {
   public:
    Entry(StageDoor& door, int number) : door_(door), number_(number) {}
    ~Entry() { door_.generations_.erase(number_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    StageDoor& door_;
    const int number_;
  };
  // Listens on 127.0.0.1. Throws Error.
  StageDoor(wire::Loop& loop, wire::Door door);

  // `greeting`: for all lines to come.
  [[nodiscard]] Entry enter(int number, const Line::Greeting& greeting, Callbacks callbacks);
  int port() const { return port_; }
  int connections() const { return count_; }                       // that workers have made so far
  std::size_t generations() const { return generations_.size(); }  // on the stage

 private:
  void accept();
  void seat();

  wire::Loop& loop_;
  const wire::Door door_;
  int port_ = 0;
  wire::Descriptor listener_;
  wire::Watch connections_;
  std::vector<std::unique_ptr<Line>> lines_;  // of workers that have not said hello
  std::map<int, Callbacks> generations_;      // by number
  Line::Greeting greeting_;                   // for lines to come
  int count_ = 0;
};

}  // namespace espalier::launcher::conform
