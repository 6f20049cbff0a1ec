// Linear and integer programs over GLPK: no BLAS, no threads, no clock, so that results do not depend on the machine.
#pragma once

#include <memory>
#include <vector>

struct glp_prob;

namespace espalier::sim {

// Minimizes. Not thread-safe: GLPK's environment is the thread's.
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
  // `binary`: 0 or 1, then solve_integer() is to be called.
  int add_column(double cost, double at_least, double at_most, const std::vector<Entry>& entries, bool binary = false);

  // Throw Error where there is no solution.
  void solve();
  // Branch and bound with cover cuts until within `gap` of the optimum, or `nodes` nodes were looked at.
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
