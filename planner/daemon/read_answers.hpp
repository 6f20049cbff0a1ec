// The answers that only tell something. They are made of what the planner knew at one moment and of the decision store,
// so that they can be made on a thread of their own (question_thread.hpp).
#pragma once

#include <memory>
#include <string>

#include "planner/core/json.hpp"
#include "planner/daemon/planner_view.hpp"
#include "planner/daemon/store_reader.hpp"

namespace espalier {

// Whose jobs a question may be about. With PrivateData=jobs in slurm.conf an ordinary user sees the
// user's own ones only.
struct Viewer {
  uid_t uid;
  bool all;
  bool sees(uid_t owner) const { return all || owner == uid; }
};

// One thread at a time.
class ReadAnswers {
 public:
  // Whether `what` names a question that this class answers.
  static bool answers(const std::string& what);
  // `store`: the file of the decision store.
  explicit ReadAnswers(const std::string& store) : store_(store) {}
  // The answer as JSON text. `arguments` is an object. Throws Error when the question is refused; its message is for
  // the user.
  std::string answer(const std::string& what, const Json& arguments, const PlannerView& view, const Viewer& viewer);

 private:
  // What one question is about.
  struct Asked {
    const Json& arguments;
    const PlannerView& view;
    const Viewer& viewer;
  };
  using Answer = std::string (ReadAnswers::*)(const Asked&);
  static Answer find(const std::string& what);

  std::string searched_lists(JobId id, const Json& job);
  Json described(JobId id, const Asked& asked);  // throws Error to those who may not see it
  std::string job(const Asked& asked);
  std::string jobs(const Asked& asked);
  std::string scale(const Asked& asked);
  std::string decision(const Asked& asked);
  std::string decisions(const Asked& asked);
  std::string nodes(const Asked& asked);
  std::string profiles(const Asked& asked);
  std::string profile(const Asked& asked);
  std::string usage(const Asked& asked);
  Json usage_of(const StoredJob& stored, bool with_allocations, const PlannerView& view);
  std::string explain(const Asked& asked);

  StoreReader store_;
};

}  // namespace espalier
