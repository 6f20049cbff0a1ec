// Makes the conversions of messages.hpp from a message's list of fields. For the files that hold such lists alone.
//
// A list is a function template `visit(Message&, Visitor&)`, in the message's namespace: to_frame() and from_frame()
// find it by its argument. It names each field to the visitor, a FieldWriter or a FieldReader (message_fields.hpp): one
// list serves both directions.
#pragma once

#include <string>

#include "planner/core/error.hpp"
#include "planner/core/fields.hpp"
#include "planner/wire/message_fields.hpp"
#include "planner/wire/messages.hpp"

namespace espalier::wire {

template <class Message>
Frame to_frame(const Message& message) {
  Frame frame{Message::type, Json::object()};
  FieldWriter writer{frame.body};
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
  FieldReader reader{Fields(frame.body, frame.type)};
  visit(message, reader);
  return message;
}

}  // namespace espalier::wire

// Makes both conversions of the message T, in its namespace and behind its list.
#define ESPALIER_MESSAGE(T)             \
  template Frame to_frame<T>(const T&); \
  template T from_frame<T>(const Frame&);
