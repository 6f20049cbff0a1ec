// A group that reports its ordered sums, which are the tensor-parallel ones, to an observer.
#pragma once

#include <memory>
#include <utility>

#include "torchrt/comm/group.hpp"

namespace espalier::torchrt {

class SumObserver {
 public:
  virtual ~SumObserver() = default;
  virtual void begin_sum() = 0;
  virtual void end_sum() = 0;
};

class TimedGroup : public Group {
 public:
  explicit TimedGroup(std::unique_ptr<Group> group) : group_(std::move(group)) {}
  // Null: no observer and no cost.
  void observe(SumObserver* observer) { observer_ = observer; }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  void sum(Buffer buffer) override {
    if (observer_) observer_->begin_sum();
    group_->sum(buffer);
    if (observer_) observer_->end_sum();
  }
  void max(Buffer buffer) override { group_->max(buffer); }
  std::unique_ptr<Pending> start_sum(Buffer buffer) override { return group_->start_sum(buffer); }
  std::unique_ptr<Pending> start_reduce_scatter(Buffer all, std::span<const Range> parts) override {
    return group_->start_reduce_scatter(all, parts);
  }
  std::unique_ptr<Pending> start_gather(Buffer all, std::span<const Range> parts) override {
    return group_->start_gather(all, parts);
  }
  void abort() override { group_->abort(); }

 private:
  std::unique_ptr<Group> group_;
  SumObserver* observer_ = nullptr;
};

}  // namespace espalier::torchrt
