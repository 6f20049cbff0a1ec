#include "planner/core/feature_expression.hpp"

#include <optional>

namespace espalier {
namespace {

constexpr int kMostNested = 32;

// any := all ("|" all)*; all := one (("&" | ",") one)*; one := "(" any ")" | "[" any "]" | NAME ["*" NUMBER].
class Reader {
 public:
  Reader(const std::string& text, const std::set<std::string>& features) : text_(text), features_(features) {}

  // nullopt: the text is no constraint.
  std::optional<bool> read() {
    const auto value = any(0, false);
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  // `counts`: within brackets that count nodes, where "&" joins what different nodes have.
  std::optional<bool> any(int depth, bool counts) {
    bool value = false;
    do {
      const auto one = all(depth, counts);
      if (!one) return std::nullopt;
      value = value || *one;
    } while (take('|'));
    return value;
  }

  std::optional<bool> all(int depth, bool counts) {
    bool every = true, some = false;
    do {
      const auto value = one(depth, counts);
      if (!value) return std::nullopt;
      every = every && *value;
      some = some || *value;
    } while (take('&') || take(','));
    return counts ? some : every;
  }

  std::optional<bool> one(int depth, bool counts) {
    if (depth > kMostNested) return std::nullopt;
    if (take('(')) return closed(')', any(depth + 1, counts));
    if (take('[')) {
      const std::string inside = text_.substr(at_, text_.find(']', at_) - at_);
      return closed(']', any(depth + 1, inside.find('*') != std::string::npos));
    }
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of("&|,()[]*", at_), text_.size());
    if (at_ == begin) return std::nullopt;
    const bool has = features_.contains(text_.substr(begin, at_ - begin));
    if (take('*')) at_ = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    return has;
  }

  std::optional<bool> closed(char end, std::optional<bool> value) { return take(end) ? value : std::nullopt; }

  const std::string& text_;
  const std::set<std::string>& features_;
  std::size_t at_ = 0;
};

}  // namespace

bool may_be_on(const std::string& constraint, const std::set<std::string>& features) {
  return constraint.empty() || Reader(constraint, features).read().value_or(true);
}

bool fits_one_node(const std::string& constraint) { return constraint.find('*') == std::string::npos; }

}  // namespace espalier
