// Custom autograd nodes: made like torch's generated ones, without the cost of its Python-like
// Function.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>

#include "torchrt/model/layers/pass.hpp"

namespace espalier::torchrt {

using torch::autograd::variable_list;

// Makes a node with these inputs. Set its outputs' history with torch::autograd::set_history. If
// the node keeps its own outputs, they must be detached.
template <class Node, class... Inputs>
std::shared_ptr<Node> make_node(const Inputs&... inputs) {
  std::shared_ptr<Node> node(new Node(), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

}  // namespace espalier::torchrt
