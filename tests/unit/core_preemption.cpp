#include <doctest/doctest.h>

#include "planner/core/preemption.hpp"

using namespace espalier;

namespace {

using By = PreemptionRule::By;

// A site that preempts by QOS as it should: "normal" and "high" may preempt "lent".
PreemptionSettings by_qos() {
  PreemptionSettings site;
  site.type = "preempt/qos";
  site.mode = "CANCEL";
  site.partition = "elastic";
  site.partition_mode = "OFF";
  site.extension_qos = "lent";
  site.qos = {Qos{"high", {"lent", "normal"}, "", 0, 1}, Qos{"lent", {}, "", 30, 0}, Qos{"low", {}, "", 0, 1},
              Qos{"normal", {"lent"}, "", 0, 1}};
  return site;
}

bool misses(const PreemptionRule& rule, const std::string& text) {
  for (const std::string& one : rule.missing)
    if (one.find(text) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("preemption by QOS: who may take extensions back") {
  const PreemptionRule rule = judge_preemption(by_qos());
  CHECK(rule.by == By::qos);
  CHECK(rule.lends);
  CHECK(rule.takers == std::set<std::string>{"high", "normal"});
  CHECK(rule.missing.empty());
  CHECK(rule.taken_back_for("high"));
  CHECK_FALSE(rule.taken_back_for("low"));
  CHECK_FALSE(rule.taken_back_for("lent"));
  CHECK_FALSE(rule.taken_back_for(""));
}

TEST_CASE("preemption by QOS: nothing is lent where nobody could take it back") {
  const auto broken = [](const auto& change) {
    PreemptionSettings site = by_qos();
    change(site);
    const PreemptionRule rule = judge_preemption(site);
    CHECK(rule.by == By::qos);
    CHECK_FALSE(rule.lends);
    CHECK(rule.takers.empty());
    return rule;
  };
  CHECK(misses(broken([](auto& site) { site.extension_qos.clear(); }), "set qos in [extensions]"));
  CHECK(misses(broken([](auto& site) { site.extension_qos = "gone"; }), "sacctmgr add qos gone"));
  CHECK(misses(broken([](auto& site) { site.qos.clear(); }), "knows no QOS lent"));
  CHECK(misses(broken([](auto& site) { site.mode = "OFF"; }), "PreemptMode of QOS lent is OFF"));
  CHECK(misses(broken([](auto& site) { site.qos[1].mode = "SUSPEND"; }), "PreemptMode of QOS lent is SUSPEND"));
  CHECK(misses(broken([](auto& site) { site.qos[0].preempts = site.qos[3].preempts = {"low"}; }),
               "no QOS may preempt QOS lent"));
  // A QOS does not preempt itself, whatever its list says.
  CHECK(misses(broken([](auto& site) {
                 for (Qos& one : site.qos) one.preempts.clear();
                 site.qos[1].preempts = {"lent"};
               }),
               "no QOS may preempt QOS lent"));
}

TEST_CASE("preemption by QOS: the QOS's own mode counts, not the partition's") {
  PreemptionSettings site = by_qos();
  site.mode = "OFF";
  site.qos[1].mode = "CANCEL";
  site.partition_mode = "CANCEL";
  CHECK(judge_preemption(site).lends);
}

TEST_CASE("preemption by partition") {
  PreemptionSettings site;
  site.type = "preempt/partition_prio";
  site.mode = "CANCEL";
  site.partition = "elastic";
  site.partition_mode = "CANCEL";
  PreemptionRule rule = judge_preemption(site);
  CHECK(rule.by == By::partition);
  CHECK(rule.lends);
  CHECK(rule.missing.empty());
  CHECK(rule.taken_back_for("any"));
  // A QOS of extensions is allowed there, too; but Slurm must know it.
  site.extension_qos = "lent";
  site.qos = {Qos{"normal", {}, "", 0, 1}};
  CHECK(misses(judge_preemption(site), "refuses every extension"));
  site.qos.push_back(Qos{"lent", {}, "", 0, 0});
  CHECK_FALSE(misses(judge_preemption(site), "refuses"));
  site.partition_mode = "OFF";
  rule = judge_preemption(site);
  CHECK(rule.by == By::nobody);
  CHECK(rule.lends);
  CHECK(misses(rule, "only espalierd takes extensions back"));
}

TEST_CASE("extensions that Slurm does not preempt in their first minutes are not left to it") {
  PreemptionSettings site;
  site.type = "preempt/partition_prio";
  site.partition = "elastic";
  site.partition_mode = "CANCEL";
  CHECK(judge_preemption(site).takes_all_back());
  site.exempt_seconds = 600;
  const PreemptionRule rule = judge_preemption(site);
  CHECK(rule.by == By::partition);
  CHECK(rule.lends);
  CHECK(rule.exempt_seconds == 600);
  CHECK_FALSE(rule.takes_all_back());
  CHECK(misses(rule, "in its first 600 s (PreemptExemptTime)"));
  // Any QOS of the extensions goes before the cluster.
  site.extension_qos = "lent";
  site.qos = {Qos{"lent", {}, "", 30, 0}, Qos{"pool", {}, "", 0, 1}, Qos{"other", {}, "", 0, 1, 900}};
  CHECK(judge_preemption(site).exempt_seconds == 600);
  site.qos[0].exempt_seconds = 0;
  CHECK(judge_preemption(site).takes_all_back());
  CHECK_FALSE(misses(judge_preemption(site), "PreemptExemptTime"));
  site.partition_qos = "pool";
  site.qos[1].exempt_seconds = 120;
  CHECK(judge_preemption(site).exempt_seconds == 120);
  site.type = "preempt/none";
  CHECK(judge_preemption(site).exempt_seconds == 0);
  CHECK_FALSE(judge_preemption(site).takes_all_back());

  PreemptionSettings by = by_qos();
  CHECK(judge_preemption(by).takes_all_back());
  by.qos[1].exempt_seconds = 60;
  CHECK_FALSE(judge_preemption(by).takes_all_back());
  CHECK(judge_preemption(by).taken_back_for("high"));
}

TEST_CASE("a site without preemption") {
  for (const char* type : {"", "preempt/none"}) {
    PreemptionSettings site;
    site.type = type;
    site.partition = "elastic";
    const PreemptionRule rule = judge_preemption(site);
    CHECK(rule.by == By::nobody);
    CHECK(rule.lends);
    CHECK(rule.found == "Slurm preempts no job (PreemptType=preempt/none)");
    CHECK(misses(rule, "only espalierd takes extensions back"));
  }
}
