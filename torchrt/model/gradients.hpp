// The gradient of one unit's parameters, added up over samples and micro-batches. Includes torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "torchrt/model/layers/pass.hpp"
#include "torchrt/model/units.hpp"

namespace espalier::torchrt {

// relaxed: float32 sums. bitwise: int64 in units of 2^-50, which adds without order; reduce it, then finish().
class Gradients {
 public:
  // Bitwise: `samples`, of a step, bounds how many gradients are added, `tokens` (of a sample) those of a table's row;
  // `scratch` is memory for one gradient, which grows to the largest and may be shared by all units. `memory`:
  // gradient_bytes(), of which what belongs to no tensor is zero. It and `spec` outlive the object.
  Gradients(const UnitSpec& spec, void* memory, const at::TensorOptions& options, bool bitwise, std::int64_t samples,
            std::int64_t tokens, std::shared_ptr<at::Tensor> scratch);

  // Other memory, whose content is not this step's: between two steps.
  void rebind(void* memory);

  void begin();
  // Computes and adds.
  void add(const PutOff& put_off);
  // All elements: what is not written since begin() is zero.
  const at::Tensor& sum();
  // bitwise: the sum becomes float32.
  void finish();
  const at::Tensor& values() const { return values_; }  // float32, flat; of bitwise after finish()
  // bitwise: some gradient could not be an integer. On the device.
  at::Tensor out_of_range() const { return out_of_range_; }

 private:
  struct Slot {
    at::Tensor total;  // float32, or int64 with bitwise; the parameter's shape
    bool fresh = true;
  };
  void add_float(const PutOff& put_off, Slot& slot);
  void add_integer(const PutOff& put_off, Slot& slot);
  void add_rows(const PutOff& put_off, Slot& slot);
  at::Tensor scratch(const at::Tensor& like);

  const UnitSpec& spec_;
  at::TensorOptions options_;
  bool bitwise_;
  double most_, most_of_row_;
  at::Tensor values_, integers_, out_of_range_;
  std::shared_ptr<at::Tensor> scratch_;
  std::vector<Slot> slots_;
};

}  // namespace espalier::torchrt
