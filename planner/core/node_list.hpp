// Names of nodes that many records share. A site has thousands of waiting jobs, which ask for a few different sets of
// thousands of nodes.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace espalier {

// A constant list of names. Copies share it, so that a copy costs as much as that of a pointer.
class NodeList {
 public:
  using Names = std::vector<std::string>;

  NodeList() = default;
  NodeList(Names names) {  // NOLINT(google-explicit-constructor): it is such a list
    if (!names.empty()) names_ = std::make_shared<const Names>(std::move(names));
  }
  NodeList(std::initializer_list<std::string> names) : NodeList(Names(names)) {}

  const Names& names() const {
    static const Names none;
    return names_ ? *names_ : none;
  }
  operator const Names&() const { return names(); }  // NOLINT(google-explicit-constructor)
  bool empty() const { return !names_; }
  std::size_t size() const { return names().size(); }
  auto begin() const { return names().begin(); }
  auto end() const { return names().end(); }

  // The same for lists that share their names; null where there are none.
  const void* identity() const { return names_.get(); }

  bool operator==(const NodeList& other) const { return names_ == other.names_ || names() == other.names(); }

 private:
  std::shared_ptr<const Names> names_;
};

}  // namespace espalier
