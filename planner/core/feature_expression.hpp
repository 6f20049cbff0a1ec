// Slurm's constraints: which nodes have the features that a job asks for.
#pragma once

#include <set>
#include <string>

namespace espalier {

// Whether a node with these features can be one of the nodes of a job with this constraint, as in "a100&ib", "a|b",
// "(a|b)&c", "[rack1|rack2]", "[a*2&b*1]" (then either of the two). An empty expression, and one that cannot be read,
// allows every node: Slurm itself decides in the end.
bool may_be_on(const std::string& constraint, const std::set<std::string>& features);

// Whether a job of one node can have this constraint, too: one that counts nodes cannot ("[a*2&b*1]").
bool fits_one_node(const std::string& constraint);

}  // namespace espalier
