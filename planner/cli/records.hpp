// The planner's answers as records. Pure. Throw Json's exceptions on an answer of another version.
#pragma once

#include "planner/cli/record.hpp"

namespace espalier::cli {

Record job_record(const Json& job);
Record decision_record(const Json& decision);  // without its candidates
std::vector<Record> candidate_records(const Json& decision);
// A job's scale table, without its rows, and a row.
Record scale_record(const Json& table);
Record scale_row_record(const Json& row);
Record profile_record(const Json& profile);
Record node_record(const Json& node);
Record waiting_record(const Json& waiting);
Record config_record(const Json& config);
Record usage_record(const Json& usage);  // without its allocations
Record allocation_record(const Json& allocation);
Record usage_sum_record(const Json& jobs);  // of several trainings
Record ping_record(const Json& ping);

}  // namespace espalier::cli
