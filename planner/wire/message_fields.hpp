// How the values that messages hold become fields of a frame's body, and are read from them. What most kinds of values
// are in JSON is said beside them; here is what is special to messages. Pure.
#pragma once

#include <optional>

#include "planner/core/fields.hpp"
#include "planner/wire/keeper_messages.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::wire {

// Writes fields into `body`, which must outlive it. A name that is there already is overwritten.
struct FieldWriter {
  Json& body;
  template <class T>
  void operator()(const char* name, const T& value) {
    body[name] = value;
  }
  void operator()(const char* name, DecisionKind value);
  void operator()(const char* name, Accuracy value);
  void operator()(const char* name, Trigger value);
  void operator()(const char* name, HandoffMethod value);
  void operator()(const char* name, const Description& value);
  void operator()(const char* name, const std::optional<Assign::Source>& source);  // null where it has no value
  // Without a value nothing is written.
  void operator()(const char* name, const std::optional<int>& value);
  // A field that a reader does without.
  template <class T>
  void maybe(const char* name, const T& value) {
    (*this)(name, value);
  }
  // Without a value nothing is written.
  void maybe(const char* name, const std::optional<Continuation>& value);
  void maybe(const char* name, const std::optional<Plan>& value);
};

// Reads fields. Throws Error that names the field where it is missing or of a wrong kind.
struct FieldReader {
  Fields fields;
  template <class T>
  void operator()(const char* name, T& value) {
    fields.get(name, value);
  }
  void operator()(const char* name, DecisionKind& value);
  void operator()(const char* name, Accuracy& value);
  void operator()(const char* name, Trigger& value);
  void operator()(const char* name, HandoffMethod& value);
  void operator()(const char* name, Description& value);
  void operator()(const char* name, std::optional<Assign::Source>& source);  // no value where the field is null
  // No value where the field is missing.
  void operator()(const char* name, std::optional<int>& value);
  // The same, but `value` stays as it is where the field is missing.
  template <class T>
  void maybe(const char* name, T& value) {
    if (fields.has(name)) (*this)(name, value);
  }
  void maybe(const char* name, std::optional<Continuation>& value);
  void maybe(const char* name, std::optional<Plan>& value);

 private:
  template <class Message>
  Message inner(const char* name);
};

}  // namespace espalier::wire
