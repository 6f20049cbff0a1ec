#include "planner/wire/message_fields.hpp"

#include <string>
#include <utility>
#include <vector>

namespace espalier::wire {

void FieldWriter::operator()(const char* name, DecisionKind value) { body[name] = to_string(value); }
void FieldWriter::operator()(const char* name, Accuracy value) { body[name] = to_string(value); }
void FieldWriter::operator()(const char* name, Trigger value) { body[name] = to_string(value); }
void FieldWriter::operator()(const char* name, HandoffMethod value) { body[name] = to_string(value); }

void FieldWriter::operator()(const char* name, const std::optional<int>& value) {
  if (value) body[name] = *value;
}

void FieldWriter::operator()(const char* name, const Description& value) { body[name] = to_frame(value).body; }

void FieldWriter::maybe(const char* name, const std::optional<Continuation>& value) {
  if (value) body[name] = to_frame(*value).body;
}

void FieldWriter::maybe(const char* name, const std::optional<Plan>& value) {
  if (value) body[name] = *value;
}

void FieldWriter::operator()(const char* name, const std::optional<Assign::Source>& source) {
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

void FieldReader::operator()(const char* name, DecisionKind& value) {
  std::string text;
  (*this)(name, text);
  value = kind_from(text);
}

void FieldReader::operator()(const char* name, Trigger& value) {
  std::string text;
  (*this)(name, text);
  value = trigger_from(text);
}

void FieldReader::operator()(const char* name, Accuracy& value) {
  std::string text;
  (*this)(name, text);
  value = accuracy_from(text);
}

void FieldReader::operator()(const char* name, HandoffMethod& value) {
  std::string text;
  (*this)(name, text);
  value = handoff_method_from(text);
}

template <class Message>
Message FieldReader::inner(const char* name) {
  Frame frame{Message::type, {}};
  (*this)(name, frame.body);
  return from_frame<Message>(frame);
}

void FieldReader::operator()(const char* name, Description& value) { value = inner<Description>(name); }

void FieldReader::maybe(const char* name, std::optional<Continuation>& value) {
  if (fields.has(name)) value = inner<Continuation>(name);
}

void FieldReader::maybe(const char* name, std::optional<Plan>& value) {
  if (fields.has(name)) fields.get(name, value.emplace());
}

void FieldReader::operator()(const char* name, std::optional<int>& value) {
  value.reset();
  if (fields.has(name)) fields.get(name, value.emplace());
}

void FieldReader::operator()(const char* name, std::optional<Assign::Source>& source) {
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

}  // namespace espalier::wire
