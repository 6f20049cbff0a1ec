#include "planner/sim/policies/linear_program.hpp"

#include <glpk.h>

#include <string>

#include "planner/core/error.hpp"

namespace espalier::sim {
namespace {

int bounds_kind(double at_least, double at_most) {
  const bool below = at_least > -LinearProgram::kNone, above = at_most < LinearProgram::kNone;
  if (below && above) return at_least == at_most ? GLP_FX : GLP_DB;
  return below ? GLP_LO : above ? GLP_UP : GLP_FR;
}

void check(int code, const char* what) {
  if (code != 0) throw Error(std::string("linear program: ") + what + " failed, GLPK's code " + std::to_string(code));
}

struct NodeLimit {
  long left = 0;
};

void count_nodes(glp_tree* tree, void* info) {
  auto* const limit = static_cast<NodeLimit*>(info);
  // Never stops before a solution exists.
  if (glp_ios_reason(tree) == GLP_ISELECT && --limit->left < 0 && glp_mip_status(glp_ios_get_prob(tree)) == GLP_FEAS)
    glp_ios_terminate(tree);
}

}  // namespace

void LinearProgram::Free::operator()(glp_prob* problem) const { glp_delete_prob(problem); }

LinearProgram::LinearProgram() : problem_(glp_create_prob()) {
  glp_term_out(GLP_OFF);
  glp_set_obj_dir(problem_.get(), GLP_MIN);
}
LinearProgram::~LinearProgram() = default;

int LinearProgram::add_row(double at_least, double at_most) {
  const int row = glp_add_rows(problem_.get(), 1);
  glp_set_row_bnds(problem_.get(), row, bounds_kind(at_least, at_most), at_least, at_most);
  return row;
}

int LinearProgram::add_column(double cost, double at_least, double at_most, const std::vector<Entry>& entries,
                              bool binary) {
  const int column = glp_add_cols(problem_.get(), 1);
  glp_set_obj_coef(problem_.get(), column, cost);
  glp_set_col_bnds(problem_.get(), column, bounds_kind(at_least, at_most), at_least, at_most);
  if (binary) glp_set_col_kind(problem_.get(), column, GLP_BV);
  std::vector<int> rows{0};  // GLPK counts from 1
  std::vector<double> values{0};
  for (const Entry& entry : entries) {
    rows.push_back(entry.row);
    values.push_back(entry.value);
  }
  glp_set_mat_col(problem_.get(), column, static_cast<int>(entries.size()), rows.data(), values.data());
  return column;
}

void LinearProgram::solve() {
  integer_ = false;
  if (glp_get_num_cols(problem_.get()) == 0) return;
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  check(glp_simplex(problem_.get(), &options), "the simplex method");
  if (glp_get_status(problem_.get()) != GLP_OPT) throw Error("linear program: has no optimal solution");
}

void LinearProgram::solve_integer(double gap, long nodes) {
  integer_ = true;
  if (glp_get_num_cols(problem_.get()) == 0) return;
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.presolve = GLP_ON;
  options.cov_cuts = GLP_ON;
  options.mip_gap = gap;
  NodeLimit limit{nodes};
  options.cb_func = count_nodes;
  options.cb_info = &limit;
  const int code = glp_intopt(problem_.get(), &options);
  if (code != GLP_EMIPGAP && code != GLP_ESTOP) check(code, "branch and bound");
  const int status = glp_mip_status(problem_.get());
  if (status != GLP_OPT && status != GLP_FEAS) throw Error("integer program: has no solution");
}

double LinearProgram::value(int column) const {
  return integer_ ? glp_mip_col_val(problem_.get(), column) : glp_get_col_prim(problem_.get(), column);
}

double LinearProgram::objective() const {
  return integer_ ? glp_mip_obj_val(problem_.get()) : glp_get_obj_val(problem_.get());
}

}  // namespace espalier::sim
