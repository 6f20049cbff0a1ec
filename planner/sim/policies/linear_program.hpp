// Linear and integer programs, solved by GLPK. It uses no BLAS, no threads and no clock, so results
// do not depend on the machine.
#pragma once

#include <memory>
#include <vector>

struct glp_prob;

namespace espalier::sim {

// Minimizes. Not thread-safe, because GLPK's environment belongs to one thread.
class LinearProgram {
 public:
  LinearProgram();
  ~LinearProgram();
  LinearProgram(LinearProgram&&) = delete;

  static constexpr double kNone = 1e300;  // no bound
  int add_row(double at_least, double at_most);
  struct Entry {
    int row = 0;
    double value = 0;
  };
  // `binary`: the value is 0 or 1. Then call solve_integer() instead of solve().
  int add_column(double cost, double at_least, double at_most, const std::vector<Entry>& entries, bool binary = false);

  // solve() and solve_integer() throw Error when there is no solution.
  void solve();
  // Branch and bound with cover cuts. Ends within `gap` of the optimum, or after `nodes` nodes once
  // a solution exists.
  void solve_integer(double gap, long nodes);
  double value(int column) const;
  double objective() const;

 private:
  struct Free {
    void operator()(glp_prob* problem) const;
  };
  std::unique_ptr<glp_prob, Free> problem_;
  bool integer_ = false;
};

}  // namespace espalier::sim
