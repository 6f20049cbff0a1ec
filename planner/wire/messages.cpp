#include "planner/wire/messages.hpp"

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/wire/grant_message.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/movable_message.hpp"
#include "planner/wire/rank_messages.hpp"
#include "planner/wire/start_messages.hpp"

namespace espalier::wire {
namespace {

// One description of each message's fields serves both directions.
template <class Visitor>
void visit(Hello& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("node", m.node), v("pid", m.pid);
  v("model", m.model), v("total_steps", m.total_steps), v("handoff", m.handoff), v.maybe("spare", m.spare);
  v.maybe("parallel", m.parallel);
}
template <class Visitor>
void visit(Description& m, Visitor& v) {
  v("model", m.model), v("total_steps", m.total_steps), v("handoff", m.handoff), v("spare", m.spare);
  v("parallel", m.parallel), v.maybe("goes_on", m.goes_on);
}
template <class Visitor>
void visit(Unplanned& m, Visitor& v) {
  v("reason", m.reason);
}
template <class Visitor>
void visit(DeadlineChecked& m, Visitor& v) {
  DeadlineForecast& f = m.forecast;
  v("known", m.known), v("refuses_late", m.refuses_late), v("measured", f.measured);
  v("own_end", f.own_end), v("best_end", f.best_end), v("own_gpus", f.own_gpus), v("best_gpus", f.best_gpus);
  v.maybe("least_end", f.least_end);
}
template <class Visitor>
void visit(Grants& m, Visitor& v) {
  v("decision", m.decision), v("grants", m.grants);
}
template <class Visitor>
void visit(BasesHeld& m, Visitor& v) {
  v("job", m.job), v("bases", m.bases), v("types", m.types), v.maybe("waits", m.waits);
}
template <class Visitor>
void visit(SteerBase& m, Visitor& v) {
  v("job", m.job), v("base", m.base), v("nodes", m.nodes);
}
template <class Visitor>
void visit(WithdrawBase& m, Visitor& v) {
  v("job", m.job), v("decision", m.decision), v("reason", m.reason);
}
template <class Visitor>
void visit(Known& m, Visitor& v) {
  v("basis", m.basis);
}
template <class Visitor>
void visit(Ready& m, Visitor& v) {
  v.maybe("gpu_islands", m.gpu_islands), v.maybe("jobs_reach", m.jobs_reach);
}
template <class Visitor>
void visit(Step& m, Visitor& v) {
  v("step", m.step), v("loss", m.loss), v("seconds", m.seconds), v("tokens_per_second", m.tokens_per_second);
  v.maybe("settled", m.settled);
}
template <class Visitor>
void visit(Profiled& m, Visitor& v) {
  v("profile", m.profile);
}
template <class Visitor>
void visit(Standing& m, Visitor& v) {
  v("step", m.step);
}
template <class Visitor>
void visit(Switched& m, Visitor& v) {
  v("step", m.step), v("problem", m.problem);
}
template <class Visitor>
void visit(Loaded& m, Visitor& v) {
  v("bytes_adopted", m.bytes_adopted), v("bytes_copied", m.bytes_copied), v("bytes_sent", m.bytes_sent);
  v("step", m.step), v("from", m.from), v("phases_ms", m.phases_ms), v("bytes_sent_early", m.bytes_sent_early);
}
template <class Visitor>
void visit(Done& m, Visitor& v) {
  v("step", m.step);
}
template <class Visitor>
void visit(Failed& m, Visitor& v) {
  v("message", m.message), v("peer", m.peer), v.maybe("memory", m.memory);
}
template <class Visitor>
void visit(Assign& m, Visitor& v) {
  v("plan", m.plan), v("source", m.source), v("accuracy", m.accuracy), v("device", m.device);
  v.maybe("jobs", m.jobs);
}
template <class Visitor>
void visit(Switch& m, Visitor& v) {
  v("next", m.next), v("generation", m.generation), v.maybe("jobs", m.jobs);
}
template <class Visitor>
void visit(Load& m, Visitor& v) {
  v("step", m.step), v.maybe("giving", m.giving);
}
template <class Visitor>
void visit(Given&, Visitor&) {}
template <class Visitor>
void visit(Commit&, Visitor&) {}
template <class Visitor>
void visit(Resume& m, Visitor& v) {
  v.maybe("plan", m.plan);
}
template <class Visitor>
void visit(Checkpoint&, Visitor&) {}
template <class Visitor>
void visit(Exit&, Visitor&) {}
template <class Visitor>
void visit(KeeperHello& m, Visitor& v) {
  v("job", m.job), v("node", m.node), v("extension", m.extension), v.maybe("continuation", m.continuation);
}
template <class Visitor>
void visit(Continuation& m, Visitor& v) {
  v("restarts", m.restarts), v("number", m.number), v("base", m.base), v("program", m.program);
  v("description", m.description), v("accuracy", m.accuracy), v("last_generation", m.last_generation);
  v("source", m.source), v.maybe("gpu_islands", m.gpu_islands), v.maybe("jobs_reach", m.jobs_reach);
}
template <class Visitor>
void visit(RankServerHello& m, Visitor& v) {
  v("job", m.job), v("node", m.node), v("pid", m.pid), v.maybe("gpu_faults", m.gpu_faults);
  v.maybe("base64", m.base64);
}
template <class Visitor>
void visit(RankEnded& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("code", m.code), v("finalized", m.finalized);
}
template <class Visitor>
void visit(RankAborted& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("code", m.code);
}
template <class Visitor>
void visit(RanksRefused& m, Visitor& v) {
  v("generation", m.generation), v("reason", m.reason);
}
template <class Visitor>
void visit(FenceEntered& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number), v("data", m.data), v.maybe("base64", m.base64);
}
template <class Visitor>
void visit(RankOutput& m, Visitor& v) {
  v("error", m.error), v("text", m.text);
}
template <class Visitor>
void visit(ModexWanted& m, Visitor& v) {
  v("generation", m.generation), v("rank", m.rank), v("ticket", m.ticket);
}
template <class Visitor>
void visit(ModexFound& m, Visitor& v) {
  v("generation", m.generation), v("ticket", m.ticket), v("found", m.found), v("data", m.data);
}
template <class Visitor>
void visit(RunRanks& m, Visitor& v) {
  v("generation", m.generation), v("name", m.name), v("places", m.places), v("here", m.here);
  v("program", m.program), v("environment", m.environment), v("directory", m.directory), v("folder", m.folder);
  v("limits", m.limits), v("network", m.network), v("first", m.first), v("address", m.address), v("port", m.port);
  v.maybe("base64", m.base64);
}
template <class Visitor>
void visit(Rendezvous& m, Visitor& v) {
  v("generation", m.generation), v("address", m.address), v("port", m.port);
}
template <class Visitor>
void visit(FenceDone& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number), v("complete", m.complete), v("data", m.data);
  v.maybe("base64", m.base64);
}
template <class Visitor>
void visit(SparesFork&, Visitor&) {}
template <class Visitor>
void visit(KeepSpares& m, Visitor& v) {
  v("count", m.count), v("program", m.program), v("environment", m.environment), v("folder", m.folder);
  v("limits", m.limits), v.maybe("forks", m.forks);
}
template <class Visitor>
void visit(SignalRanks& m, Visitor& v) {
  v("generation", m.generation), v("number", m.number);
}
template <class Visitor>
void visit(EndRanks& m, Visitor& v) {
  v("generation", m.generation);
}
template <class Visitor>
void visit(OutputTaken& m, Visitor& v) {
  v("bytes", m.bytes);
}
template <class Visitor>
void visit(Notice& m, Visitor& v) {
  v("job", m.job);
}
template <class Visitor>
void visit(Heartbeat&, Visitor&) {}
template <class Visitor>
void visit(Keep& m, Visitor& v) {
  v("generation", m.generation), v("copies", m.copies);
}
template <class Visitor>
void visit(GiveBack&, Visitor&) {}
template <class Visitor>
void visit(Register& m, Visitor& v) {
  v("job", m.job), v("host", m.host), v("pid", m.pid);
}
template <class Visitor>
void visit(Status& m, Visitor& v) {
  v("job", m.job);
}
template <class Visitor>
void visit(Transition& m, Visitor& v) {
  v("job", m.job), v("time", m.time), v("from", m.from), v("event", m.event), v("to", m.to);
  v("generation", m.generation), v("decision", m.decision);
}
template <class Visitor>
void visit(Outcome& m, Visitor& v) {
  v("job", m.job), v("decision", m.decision), v("kind", m.kind), v("result", m.result), v("reason", m.reason);
  v("generation", m.generation);
  v("step", m.step), v("pause_ms", m.pause_ms), v("phases_ms", m.phases_ms), v("plan", m.plan);
  v.maybe("trigger", m.trigger), v.maybe("candidates", m.candidates);
}
template <class Visitor>
void visit(Bye& m, Visitor& v) {
  v("job", m.job), v("exit_code", m.exit_code);
}
template <class Visitor>
void visit(Registered& m, Visitor& v) {
  v.maybe("in_place", m.in_place);
}
template <class Visitor>
void visit(Refused& m, Visitor& v) {
  v("reason", m.reason);
}
template <class Visitor>
void visit(Propose& m, Visitor& v) {
  v("decision", m.decision);
}
template <class Visitor>
void visit(Query& m, Visitor& v) {
  v("what", m.what), v("arguments", m.arguments);
}
template <class Visitor>
void visit(Reply& m, Visitor& v) {
  v("body", m.body);
}
template <class Visitor>
void visit(Topology& m, Visitor& v) {
  v("node", m.node), v("xml", m.xml);
}

struct Writer {
  Json& body;
  template <class T>
  void operator()(const char* name, const T& value) {
    body[name] = value;
  }
  void operator()(const char* name, DecisionKind value) { body[name] = to_string(value); }
  void operator()(const char* name, Accuracy value) { body[name] = to_string(value); }
  void operator()(const char* name, Trigger value) { body[name] = to_string(value); }
  void operator()(const char* name, HandoffMethod value) { body[name] = to_string(value); }
  void operator()(const char* name, const std::optional<int>& value) {
    if (value) body[name] = *value;
  }
  template <class T>
  void maybe(const char* name, const T& value) {
    (*this)(name, value);
  }
  void operator()(const char* name, const Description& value) { body[name] = to_frame(value).body; }
  void maybe(const char* name, const std::optional<Continuation>& value) {
    if (value) body[name] = to_frame(*value).body;
  }
  void maybe(const char* name, const std::optional<Plan>& value) {
    if (value) body[name] = *value;
  }
  void operator()(const char* name, const std::optional<Assign::Source>& source) {
    body[name] = Json(nullptr);
    if (!source) return;
    Json earlier = Json::array();
    for (const Assign::Source::Earlier& one : source->earlier)
      earlier.push_back(
          {{"generation", one.generation}, {"plan", one.plan}, {"copies_only", one.copies_only}, {"step", one.step}});
    body[name] = {{"generation", source->generation},
                  {"plan", source->plan},
                  {"recovery", source->recovery},
                  {"early_seconds", source->early_seconds},
                  {"earlier", std::move(earlier)}};
  }
};

struct Reader {
  Fields fields;
  template <class T>
  void operator()(const char* name, T& value) {
    fields.get(name, value);
  }
  void operator()(const char* name, DecisionKind& value) {
    std::string text;
    (*this)(name, text);
    value = kind_from(text);
  }
  void operator()(const char* name, Trigger& value) {
    std::string text;
    (*this)(name, text);
    value = trigger_from(text);
  }
  void operator()(const char* name, Accuracy& value) {
    std::string text;
    (*this)(name, text);
    value = accuracy_from(text);
  }
  void operator()(const char* name, HandoffMethod& value) {
    std::string text;
    (*this)(name, text);
    value = handoff_method_from(text);
  }
  template <class T>
  void maybe(const char* name, T& value) {
    if (fields.has(name)) (*this)(name, value);
  }
  template <class Message>
  Message inner(const char* name) {
    Frame frame{Message::type, {}};
    (*this)(name, frame.body);
    return from_frame<Message>(frame);
  }
  void operator()(const char* name, Description& value) { value = inner<Description>(name); }
  void maybe(const char* name, std::optional<Continuation>& value) {
    if (fields.has(name)) value = inner<Continuation>(name);
  }
  void maybe(const char* name, std::optional<Plan>& value) {
    if (fields.has(name)) fields.get(name, value.emplace());
  }
  void operator()(const char* name, std::optional<int>& value) {
    value.reset();
    if (fields.has(name)) fields.get(name, value.emplace());
  }
  void operator()(const char* name, std::optional<Assign::Source>& source) {
    Json value;
    (*this)(name, value);
    source.reset();
    if (value.is_null()) return;
    const Fields inner(value, "assign.source");
    source = Assign::Source{};
    inner.get("generation", source->generation);
    inner.get("plan", source->plan);
    if (inner.has("recovery")) inner.get("recovery", source->recovery);
    if (inner.has("early_seconds")) inner.get("early_seconds", source->early_seconds);
    std::vector<Json> earlier;
    if (inner.has("earlier")) inner.get("earlier", earlier);
    for (const Json& one : earlier) {
      const Fields fields_of_one(one, "assign.source.earlier");
      Assign::Source::Earlier& known = source->earlier.emplace_back();
      fields_of_one.get("generation", known.generation);
      fields_of_one.get("plan", known.plan);
      fields_of_one.get("copies_only", known.copies_only);
      fields_of_one.get("step", known.step);
    }
  }
};

}  // namespace

template <class Message>
Frame to_frame(const Message& message) {
  Frame frame{Message::type, Json::object()};
  Writer writer{frame.body};
  Message copy = message;  // visit() is shared with reading and takes a mutable reference
  visit(copy, writer);
  return frame;
}

template <class Message>
Message from_frame(const Frame& frame) {
  if (frame.type != Message::type) throw Error("message " + frame.type + ": expected " + std::string(Message::type));
  Message message;
  // A site upgrades one host after the other while jobs train, and workers are of whatever version their users have.
  const UnknownFieldsPass pass;
  Reader reader{Fields(frame.body, frame.type)};
  visit(message, reader);
  return message;
}

#define ESPALIER_MESSAGE(T)             \
  template Frame to_frame<T>(const T&); \
  template T from_frame<T>(const Frame&);
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
ESPALIER_MESSAGE(RankServerHello)
ESPALIER_MESSAGE(RankEnded)
ESPALIER_MESSAGE(RankAborted)
ESPALIER_MESSAGE(RanksRefused)
ESPALIER_MESSAGE(Rendezvous)
ESPALIER_MESSAGE(FenceEntered)
ESPALIER_MESSAGE(RankOutput)
ESPALIER_MESSAGE(ModexWanted)
ESPALIER_MESSAGE(ModexFound)
ESPALIER_MESSAGE(RunRanks)
ESPALIER_MESSAGE(FenceDone)
ESPALIER_MESSAGE(KeepSpares)
ESPALIER_MESSAGE(SparesFork)
ESPALIER_MESSAGE(SignalRanks)
ESPALIER_MESSAGE(EndRanks)
ESPALIER_MESSAGE(OutputTaken)
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
#undef ESPALIER_MESSAGE

}  // namespace espalier::wire
