#include "torchrt/schedule/sent_lists.hpp"

#include <limits>

#include "planner/core/error.hpp"
#include "planner/core/pipeline/csv.hpp"
#include "torchrt/random.hpp"
#include "torchrt/schedule/must_fit.hpp"
#include "torchrt/schedule/must_run.hpp"

namespace espalier::torchrt {

std::shared_ptr<const pipeline::Schedule> sent_lists(const std::string& csv, const Layout& layout,
                                                     const ScheduleOptions& options, Messages messages) {
  ScheduleOptions with = options;
  try {
    with.given = std::make_shared<const pipeline::Schedule>(pipeline::read_csv(csv));  // sound, or it throws
    if (!fits(*with.given, layout)) throw Error("they are for other stages, chunks or micro-batches than the plan");
    must_run(with, layout, messages);
  } catch (const Error& error) {
    throw Error(std::string("the lists that were sent: ") + error.what());
  }
  return with.given;
}

int fingerprint(const pipeline::Schedule& lists) {
  const std::uint64_t hash = hash_name(pipeline::write_csv(lists));
  return static_cast<int>((hash ^ (hash >> 31)) & std::numeric_limits<int>::max());
}

}  // namespace espalier::torchrt
