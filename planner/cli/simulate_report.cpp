#include "planner/cli/simulate_study.hpp"
#include "planner/core/error.hpp"
namespace espalier::cli {
std::string write_report(const Study&, const std::string&) { throw Error("report: not yet"); }
}  // namespace espalier::cli
