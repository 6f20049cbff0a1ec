#include "torchrt/model/gradients.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "planner/core/error.hpp"
#include "torchrt/model/fixed_point.hpp"
#include "torchrt/model/mapped_tensor.hpp"
#include "torchrt/model/state_layout.hpp"

namespace espalier::torchrt {

namespace {

// 2^12: in units of 2^-50 it is 2^62, one bit less than an int64 holds.
constexpr double kMost = 4096;

// A pass over the sum reads and writes 8 bytes a value, so the gradients of several samples are added in one pass.
constexpr std::int64_t kMostTogether = 4;
// The values of gradients that wait for the pass. One gradient may be larger by itself, e.g. the head's. On a processor
// the gradients must fit into its cache, or they are written to memory and read again.
constexpr std::int64_t kScratch = 64 << 20, kHostScratch = 256 << 10;

// total = (fresh ? 0 : total) + scale * transpose(left) x right, in float32.
void add_product(const at::Tensor& total, const PutOff& put_off, bool fresh) {
  const at::Tensor left = put_off.left.t();
  at::Tensor out = total;
  if (left.scalar_type() == at::kFloat) {
    out.addmm_(left, put_off.right, fresh ? 0 : 1, put_off.scale);
  } else if (left.is_cuda()) {
    at::addmm_out(out, total, left, put_off.right, at::kFloat, fresh ? 0 : 1, put_off.scale);
  } else {
    const at::Tensor product = at::mm(left, put_off.right);
    if (fresh) out.copy_(product).mul_(put_off.scale);
    else out.add_(product, put_off.scale);
  }
}

// whole = the gradient, in float32, zero where it has no rows.
void write(const PutOff& put_off, at::Tensor& whole) {
  switch (put_off.kind) {
    case PutOff::Kind::product:
      return add_product(whole, put_off, true);
    case PutOff::Kind::row_sum:
      at::sum_out(whole, put_off.left, 0, false, at::kFloat);
      return;
    default:
      whole.narrow(0, 0, put_off.left.size(0)).copy_(put_off.left);
      if (put_off.left.size(0) < whole.size(0))
        whole.narrow(0, put_off.left.size(0), whole.size(0) - put_off.left.size(0)).zero_();
  }
}

}  // namespace

Gradients::Gradients(const UnitSpec& spec, void* memory, const at::TensorOptions& options, bool bitwise,
                     std::int64_t samples, std::int64_t tokens, std::shared_ptr<at::Tensor> scratch)
    : spec_(spec),
      options_(options),
      bitwise_(bitwise),
      most_(kMost / static_cast<double>(samples)),
      most_of_row_(kMost / static_cast<double>(samples * tokens)),
      scratch_(std::move(scratch)) {
  if (bitwise_) out_of_range_ = at::zeros({}, options.dtype(at::kBool));
  rebind(memory);
}

void Gradients::rebind(void* memory) {
  const std::int64_t count = static_cast<std::int64_t>(spec_.floats);
  values_ = mapped_tensor(memory, {count}, options_.dtype(at::kFloat));
  if (bitwise_)
    integers_ = mapped_tensor(static_cast<char*>(memory) + gradient_integers_offset(spec_.floats), {count},
                              options_.dtype(at::kLong));
  slots_.clear();
  for (const TensorSpec& tensor : spec_.tensors)
    slots_.push_back(
        {(bitwise_ ? integers_ : values_)
             .narrow(0, static_cast<std::int64_t>(tensor.offset), static_cast<std::int64_t>(tensor.elements()))
             .view(tensor.shape)});
}

void Gradients::begin() {
  for (Slot& slot : slots_) slot.fresh = true;
  if (bitwise_) out_of_range_.fill_(false);
}

void Gradients::add(std::span<PutOffs* const> runs) {
  ESPALIER_INVARIANT(!runs.empty());
  for (const PutOffs* const run : runs) ESPALIER_INVARIANT(run->size() == runs.front()->size());
  for (std::size_t place = 0; place < runs.front()->size(); ++place) {
    const PutOff& first = (*runs.front())[place];
    Slot& slot = slots_[static_cast<std::size_t>(first.parameter)];
    if (bitwise_ && first.kind != PutOff::Kind::scatter) {
      add_integers(runs, place, slot);
    } else {
      for (PutOffs* const run : runs) {
        PutOff& put_off = (*run)[place];
        if (put_off.kind == PutOff::Kind::scatter) add_rows(put_off, slot);
        else add_float(put_off, slot);
        slot.fresh = false;
        put_off = {};
      }
    }
  }
  for (PutOffs* const run : runs) run->clear();
}

void Gradients::add_float(const PutOff& put_off, Slot& slot) {
  switch (put_off.kind) {
    case PutOff::Kind::product:
      return add_product(slot.total, put_off, slot.fresh);
    case PutOff::Kind::row_sum:
      if (slot.fresh) at::sum_out(slot.total, put_off.left, 0, false, at::kFloat);
      else slot.total.add_(at::sum(put_off.left, 0, false, at::kFloat));
      return;
    default:
      if (slot.fresh) slot.total.zero_();
      slot.total.narrow(0, 0, put_off.left.size(0)).add_(put_off.left);
  }
}

void Gradients::add_integers(std::span<PutOffs* const> runs, std::size_t place, Slot& slot) {
  const auto count = static_cast<std::int64_t>(runs.size());
  const std::int64_t most = together(slot.total.numel(), count);
  for (std::int64_t first = 0; first < count; first += most) {
    const at::Tensor all = scratch(slot.total, std::min(most, count - first));
    for (std::int64_t i = 0; i < all.size(0); ++i) {
      PutOff& put_off = (*runs[static_cast<std::size_t>(first + i)])[place];
      ESPALIER_INVARIANT(&slot == &slots_[static_cast<std::size_t>(put_off.parameter)]);
      at::Tensor whole = all[i];
      write(put_off, whole);
      put_off = {};
    }
    add_fixed_point(slot.total, all, slot.fresh, most_, out_of_range_);
    slot.fresh = false;
  }
}

// Turns each row into integers by itself, so that a large table is touched only in rows with
// tokens.
void Gradients::add_rows(const PutOff& put_off, Slot& slot) {
  if (slot.fresh) slot.total.zero_();
  const at::Tensor rows = put_off.left.to(at::kFloat);
  if (!bitwise_) {
    slot.total.index_add_(0, put_off.right, rows);
    return;
  }
  const at::Tensor units = at::empty(rows.sizes(), slot.total.options());
  add_fixed_point(units, rows, true, most_of_row_, out_of_range_);
  slot.total.index_add_(0, put_off.right, units);
}

// How many of `runs` gradients of so many elements are added together.
std::int64_t Gradients::together(std::int64_t elements, std::int64_t runs) const {
  const bool host = integers_.is_cpu();
  const std::int64_t room = host ? kHostScratch : std::max(kScratch, scratch_->defined() ? scratch_->numel() : 0);
  return std::clamp<std::int64_t>(room / std::max<std::int64_t>(1, elements), 1, std::min(runs, kMostTogether));
}

// Memory for `several` gradients of the shape of `like`.
at::Tensor Gradients::scratch(const at::Tensor& like, std::int64_t several) {
  const std::int64_t needed = several * like.numel();
  if (!scratch_->defined() || scratch_->numel() < needed) *scratch_ = at::empty({needed}, values_.options());
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape.insert(shape.begin(), several);
  return scratch_->narrow(0, 0, needed).view(shape);
}

const at::Tensor& Gradients::sum() {
  for (Slot& slot : slots_)
    if (std::exchange(slot.fresh, false)) slot.total.zero_();
  return bitwise_ ? integers_ : values_;
}

void Gradients::finish() {
  sum();
  if (bitwise_) from_fixed_point(values_, integers_);
}

}  // namespace espalier::torchrt
