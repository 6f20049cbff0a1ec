// fifo, sjf, backfill, slurm: jobs run on their submitted plan from start to end.
#include <limits>

#include "planner/sim/policies/policies.hpp"

namespace espalier::sim {
namespace {

class NonElastic final : public Policy {
 public:
  explicit NonElastic(std::string name, QueueOrder order) : name_(std::move(name)), order_(order) {}
  std::string name() const override { return name_; }
  double period() const override { return std::numeric_limits<double>::infinity(); }
  std::optional<QueueOrder> queue() const override { return order_; }
  std::vector<Act> decide(const SimulatedView&) override { return {}; }

 private:
  const std::string name_;
  const QueueOrder order_;
};

}  // namespace

std::unique_ptr<Policy> make_non_elastic(const std::string& name) {
  for (const QueueOrder order : {QueueOrder::backfill, QueueOrder::slurm})
    if (name == to_string(order)) return std::make_unique<NonElastic>(name, order);
  return std::make_unique<NonElastic>(name, name == "sjf" ? QueueOrder::sjf : QueueOrder::fifo);
}

}  // namespace espalier::sim
