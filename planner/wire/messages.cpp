#include "planner/wire/messages.hpp"

#include "planner/wire/grant_message.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/message_conversion.hpp"
#include "planner/wire/movable_message.hpp"
#include "planner/wire/start_messages.hpp"

namespace espalier::wire {

template <class Visitor>
static void visit(Hello& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("node", m.node), v("pid", m.pid);
  v("model", m.model), v("total_steps", m.total_steps), v("handoff", m.handoff), v.maybe("spare", m.spare);
  v.maybe("parallel", m.parallel);
}
template <class Visitor>
static void visit(Description& m, Visitor& v) {
  v("model", m.model), v("total_steps", m.total_steps), v("handoff", m.handoff), v("spare", m.spare);
  v("parallel", m.parallel), v.maybe("goes_on", m.goes_on);
}
template <class Visitor>
static void visit(Unplanned& m, Visitor& v) {
  v("reason", m.reason);
}
template <class Visitor>
static void visit(DeadlineChecked& m, Visitor& v) {
  DeadlineForecast& f = m.forecast;
  v("known", m.known), v("refuses_late", m.refuses_late), v("measured", f.measured);
  v("own_end", f.own_end), v("best_end", f.best_end), v("own_gpus", f.own_gpus), v("best_gpus", f.best_gpus);
  v.maybe("least_end", f.least_end);
}
template <class Visitor>
static void visit(Grants& m, Visitor& v) {
  v("decision", m.decision), v("grants", m.grants);
}
template <class Visitor>
static void visit(BasesHeld& m, Visitor& v) {
  v("job", m.job), v("bases", m.bases), v("types", m.types), v.maybe("waits", m.waits);
}
template <class Visitor>
static void visit(SteerBase& m, Visitor& v) {
  v("job", m.job), v("base", m.base), v("nodes", m.nodes);
}
template <class Visitor>
static void visit(WithdrawBase& m, Visitor& v) {
  v("job", m.job), v("decision", m.decision), v("reason", m.reason);
}
template <class Visitor>
static void visit(Known& m, Visitor& v) {
  v("basis", m.basis);
}
template <class Visitor>
static void visit(Ready& m, Visitor& v) {
  v.maybe("gpu_islands", m.gpu_islands), v.maybe("jobs_reach", m.jobs_reach);
}
template <class Visitor>
static void visit(Step& m, Visitor& v) {
  v("step", m.step), v("loss", m.loss), v("seconds", m.seconds), v("tokens_per_second", m.tokens_per_second);
  v.maybe("settled", m.settled);
}
template <class Visitor>
static void visit(Profiled& m, Visitor& v) {
  v("profile", m.profile);
}
template <class Visitor>
static void visit(Standing& m, Visitor& v) {
  v("step", m.step);
}
template <class Visitor>
static void visit(Switched& m, Visitor& v) {
  v("step", m.step), v("problem", m.problem);
}
template <class Visitor>
static void visit(Loaded& m, Visitor& v) {
  v("bytes_adopted", m.bytes_adopted), v("bytes_copied", m.bytes_copied), v("bytes_sent", m.bytes_sent);
  v("step", m.step), v("from", m.from), v("phases_ms", m.phases_ms), v("bytes_sent_early", m.bytes_sent_early);
}
template <class Visitor>
static void visit(Done& m, Visitor& v) {
  v("step", m.step);
}
template <class Visitor>
static void visit(Failed& m, Visitor& v) {
  v("message", m.message), v("peer", m.peer), v.maybe("memory", m.memory);
}
template <class Visitor>
static void visit(Assign& m, Visitor& v) {
  v("plan", m.plan), v("source", m.source), v("accuracy", m.accuracy), v("device", m.device);
  v.maybe("jobs", m.jobs);
}
template <class Visitor>
static void visit(Switch& m, Visitor& v) {
  v("next", m.next), v("generation", m.generation), v.maybe("jobs", m.jobs);
}
template <class Visitor>
static void visit(Load& m, Visitor& v) {
  v("step", m.step), v.maybe("giving", m.giving);
}
template <class Visitor>
static void visit(Given&, Visitor&) {}
template <class Visitor>
static void visit(Commit&, Visitor&) {}
template <class Visitor>
static void visit(Resume& m, Visitor& v) {
  v.maybe("plan", m.plan);
}
template <class Visitor>
static void visit(Checkpoint&, Visitor&) {}
template <class Visitor>
static void visit(Exit&, Visitor&) {}
template <class Visitor>
static void visit(KeeperHello& m, Visitor& v) {
  v("job", m.job), v("node", m.node), v("extension", m.extension), v.maybe("continuation", m.continuation);
}
template <class Visitor>
static void visit(Continuation& m, Visitor& v) {
  v("restarts", m.restarts), v("number", m.number), v("base", m.base), v("program", m.program);
  v("description", m.description), v("accuracy", m.accuracy), v("last_generation", m.last_generation);
  v("source", m.source), v.maybe("gpu_islands", m.gpu_islands), v.maybe("jobs_reach", m.jobs_reach);
}
template <class Visitor>
static void visit(Notice& m, Visitor& v) {
  v("job", m.job);
}
template <class Visitor>
static void visit(Heartbeat&, Visitor&) {}
template <class Visitor>
static void visit(Keep& m, Visitor& v) {
  v("generation", m.generation), v("copies", m.copies);
}
template <class Visitor>
static void visit(GiveBack&, Visitor&) {}
template <class Visitor>
static void visit(Register& m, Visitor& v) {
  v("job", m.job), v("host", m.host), v("pid", m.pid);
}
template <class Visitor>
static void visit(Status& m, Visitor& v) {
  v("job", m.job);
}
template <class Visitor>
static void visit(Transition& m, Visitor& v) {
  v("job", m.job), v("time", m.time), v("from", m.from), v("event", m.event), v("to", m.to);
  v("generation", m.generation), v("decision", m.decision);
}
template <class Visitor>
static void visit(Outcome& m, Visitor& v) {
  v("job", m.job), v("decision", m.decision), v("kind", m.kind), v("result", m.result), v("reason", m.reason);
  v("generation", m.generation);
  v("step", m.step), v("pause_ms", m.pause_ms), v("phases_ms", m.phases_ms), v("plan", m.plan);
  v.maybe("trigger", m.trigger), v.maybe("candidates", m.candidates);
}
template <class Visitor>
static void visit(Bye& m, Visitor& v) {
  v("job", m.job), v("exit_code", m.exit_code);
}
template <class Visitor>
static void visit(Registered& m, Visitor& v) {
  v.maybe("in_place", m.in_place);
}
template <class Visitor>
static void visit(Refused& m, Visitor& v) {
  v("reason", m.reason);
}
template <class Visitor>
static void visit(Propose& m, Visitor& v) {
  v("decision", m.decision);
}
template <class Visitor>
static void visit(Query& m, Visitor& v) {
  v("what", m.what), v("arguments", m.arguments);
}
template <class Visitor>
static void visit(Reply& m, Visitor& v) {
  v("body", m.body);
}
template <class Visitor>
static void visit(Topology& m, Visitor& v) {
  v("node", m.node), v("xml", m.xml);
}

ESPALIER_MESSAGE(Hello)
ESPALIER_MESSAGE(Description)
ESPALIER_MESSAGE(Known)
ESPALIER_MESSAGE(Grants)
ESPALIER_MESSAGE(Unplanned)
ESPALIER_MESSAGE(DeadlineChecked)
ESPALIER_MESSAGE(BasesHeld)
ESPALIER_MESSAGE(SteerBase)
ESPALIER_MESSAGE(WithdrawBase)
ESPALIER_MESSAGE(Ready)
ESPALIER_MESSAGE(Step)
ESPALIER_MESSAGE(Profiled)
ESPALIER_MESSAGE(Standing)
ESPALIER_MESSAGE(Switched)
ESPALIER_MESSAGE(Loaded)
ESPALIER_MESSAGE(Done)
ESPALIER_MESSAGE(Failed)
ESPALIER_MESSAGE(Assign)
ESPALIER_MESSAGE(Switch)
ESPALIER_MESSAGE(Load)
ESPALIER_MESSAGE(Given)
ESPALIER_MESSAGE(Commit)
ESPALIER_MESSAGE(Resume)
ESPALIER_MESSAGE(Checkpoint)
ESPALIER_MESSAGE(Exit)
ESPALIER_MESSAGE(KeeperHello)
ESPALIER_MESSAGE(Continuation)
ESPALIER_MESSAGE(Notice)
ESPALIER_MESSAGE(Heartbeat)
ESPALIER_MESSAGE(Keep)
ESPALIER_MESSAGE(GiveBack)
ESPALIER_MESSAGE(Register)
ESPALIER_MESSAGE(Status)
ESPALIER_MESSAGE(Transition)
ESPALIER_MESSAGE(Outcome)
ESPALIER_MESSAGE(Bye)
ESPALIER_MESSAGE(Registered)
ESPALIER_MESSAGE(Refused)
ESPALIER_MESSAGE(Propose)
ESPALIER_MESSAGE(Query)
ESPALIER_MESSAGE(Reply)
ESPALIER_MESSAGE(Topology)

}  // namespace espalier::wire
