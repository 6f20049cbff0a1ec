// The gradient of one unit's parameters, added up over samples and micro-batches. Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "torchrt/model/layers/pass.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// Relaxed: float32 sums. Bitwise: int64 in units of 2^-50, whose sum does not depend on the order;
// reduce it over the replicas, then call finish().
class Gradients {
 public:
  // `memory`: gradient_bytes(); the bytes that belong to no tensor are zero. `memory` and `spec`
  // must outlive the object. The rest is for bitwise. `samples` per step bounds the number of added
  // gradients. `tokens` per sample bounds the number of gradients added to a table's row. `scratch`
  // is memory for gradients of single samples: it grows to the largest, or to a few that take 256 MiB at most
  // (on a processor 1 MiB). All units may share it.
  Gradients(const UnitSpec& spec, void* memory, const at::TensorOptions& options, bool bitwise, std::int64_t samples,
            std::int64_t tokens, std::shared_ptr<at::Tensor> scratch);

  // Moves to other memory, whose content is ignored. Call it between two steps.
  void rebind(void* memory);

  void begin();
  // Computes the gradients of one or more runs of the unit, and adds them. The runs' lists have the same parameters in
  // the same order. Empties the lists.
  void add(std::span<PutOffs* const> runs);
  // All elements. An element not written since begin() is zero.
  const at::Tensor& sum();
  // Bitwise: turns the sum into float32.
  void finish();
  const at::Tensor& values() const { return values_; }  // float32, flat; bitwise: after finish()
  // Bitwise: true when some gradient did not fit an integer. A tensor on the device.
  at::Tensor out_of_range() const { return out_of_range_; }

 private:
  struct Slot {
    at::Tensor total;  // float32, or int64 with bitwise; the parameter's shape
    bool fresh = true;
  };
  void add_float(const PutOff& put_off, Slot& slot);
  void add_integers(std::span<PutOffs* const> runs, std::size_t place, Slot& slot);
  void add_rows(const PutOff& put_off, Slot& slot);
  at::Tensor scratch(const at::Tensor& like, std::int64_t several);
  std::int64_t together(std::int64_t elements, std::int64_t runs) const;

  const UnitSpec& spec_;
  at::TensorOptions options_;
  bool bitwise_;
  double most_, most_of_row_;
  at::Tensor values_, integers_, out_of_range_;
  std::shared_ptr<at::Tensor> scratch_;
  std::vector<Slot> slots_;
};

}  // namespace espalier::torchrt
