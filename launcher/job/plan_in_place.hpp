// A change in place: the running ranks take the plan and go on with it, no rank starts or ends, and no state moves.
//
//   if (in_place.possible()) in_place.ask();   // the ranks answer at their next boundary
//   in_place.go_on();                          // once all have: they train on the plan from here on
//
// A change that is given up before go_on() leaves nothing to undo here. Runs on the loop.
#pragma once

#include <optional>
#include <string>

#include "launcher/job/pause.hpp"

namespace espalier::launcher {

class PlanInPlace {
 public:
  // `under_way`: the owner's change, if there is one. All references outlive this object.
  PlanInPlace(Generations& generations, StepWatch& steps, std::optional<Change>& under_way, Pause& pause)
      : generations_(generations), steps_(steps), under_way_(under_way), pause_(pause) {}

  // These three need a change under way. possible(): no state has to move for its plan, no rank starts or ends, and the
  // running generation says that it can go on so.
  bool possible() const;
  void ask();    // whether the running generation can take the plan
  void go_on();  // the running generation takes the plan, and the pause reports the change

  // The running generation failed by itself before it has done a step on a plan that it had taken in place: the job has
  // its earlier plan again, and the change is reported as given up. False: there was no such change.
  bool take_back(const std::string& why);

 private:
  Generations& generations_;
  StepWatch& steps_;
  std::optional<Change>& under_way_;
  Pause& pause_;
};

}  // namespace espalier::launcher
