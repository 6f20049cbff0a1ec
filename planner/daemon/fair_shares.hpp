// What Slurm's accounting says of accounts and of their users' fair shares.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace espalier {

struct FairShares {
  std::map<std::string, std::string> parents;  // of each account but the root
  // By account and user, from 0 (has used far more than its share) to 1. Empty where Slurm computes none, as with
  // priority/basic.
  std::map<std::pair<std::string, std::string>, double> factors;

  // Whether `account` is `above` or below it.
  bool is_within(const std::string& account, const std::string& above) const;
};

// Reads what `sshare -a -n -P -o account,user,fairshare` prints. Each level of the tree of accounts is indented by one
// space. Lines that are not understood are skipped.
FairShares parse_fair_shares(const std::string& text);

}  // namespace espalier
