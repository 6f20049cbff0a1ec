// Parts of questions and answers. For the answers' own files.
#pragma once

#include <cstdint>
#include <string>

#include "planner/core/error.hpp"
#include "planner/core/job.hpp"
#include "planner/core/json.hpp"

namespace espalier {

template <class Number>
Number number(const Json& arguments, const char* key) {
  const auto found = arguments.find(key);
  if (found == arguments.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0 ||
      found->get<std::int64_t>() > static_cast<std::int64_t>(0x7fffffff))
    throw Error(std::string(key) + ": must be a number");
  return found->get<Number>();
}

// What is not UTF-8 in it is replaced.
inline std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

struct DecisionRecord;
Json describe_job(const ElasticJob& job, bool connected, bool ended);
Json describe_decision(const DecisionRecord& record, bool candidates);

// Where a job's coefficients come from, of the store's record of them. null: it has none.
Json describe_source(const Json& known);

}  // namespace espalier
