// Strict reading of JSON objects. get() requires the field and the right kind of value. Unknown
// fields are errors, but not in messages between programs of different versions (UnknownFieldsPass).
// Every error names its field.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/core/error.hpp"

namespace espalier {

template <class T>
inline constexpr bool is_list_of_numbers = false;
template <class T>
inline constexpr bool is_list_of_numbers<std::vector<T>> = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// While one lives, the thread's Fields accept unknown fields: a peer of another version may have added them, and they
// have no meaning here. Files are read without one, so that a misspelt field is noticed.
class UnknownFieldsPass {
 public:
  UnknownFieldsPass() { ++living_; }
  ~UnknownFieldsPass() { --living_; }
  UnknownFieldsPass(const UnknownFieldsPass&) = delete;
  UnknownFieldsPass& operator=(const UnknownFieldsPass&) = delete;
  static bool now() { return living_ > 0; }

 private:
  static inline thread_local int living_ = 0;
};

class Fields {
 public:
  Fields(const nlohmann::json& object, std::string what, std::initializer_list<std::string_view> known)
      : object_(object), what_(std::move(what)) {
    if (!object.is_object()) throw Error(what_ + ": must be a JSON object");
    if (UnknownFieldsPass::now()) return;
    for (const auto& [key, value] : object.items()) {
      bool found = false;
      for (const std::string_view name : known) found = found || name == key;
      if (!found) throw Error(what_ + "." + key + ": unknown field");
    }
  }

  // Accepts unknown fields; the caller checks for them.
  Fields(const nlohmann::json& object, std::string what) : object_(object), what_(std::move(what)) {
    if (!object.is_object()) throw Error(what_ + ": must be a JSON object");
  }

  bool has(const char* name) const { return object_.contains(name); }

  // For a field that may be absent: `out` then keeps its value.
  template <class T>
  void get_if_there(const char* name, T& out) const {
    if (has(name)) get(name, out);
  }

  template <class T>
  void get(const char* name, T& out) const {
    const auto at = object_.find(name);
    if (at == object_.end()) throw Error(what_ + "." + name + ": missing");
    if constexpr (std::is_same_v<T, bool>) {
      if (!at->is_boolean()) throw wrong(name, "true or false");
      out = at->template get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      out = integer<T>(*at, name);
    } else if constexpr (std::is_floating_point_v<T>) {
      // NaN and infinity travel as null: JSON has no other form for them.
      if (at->is_null()) {
        out = std::numeric_limits<T>::quiet_NaN();
        return;
      }
      if (!at->is_number()) throw wrong(name, "a number");
      out = at->template get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!at->is_string()) throw wrong(name, "a string");
      out = at->template get<std::string>();
    } else if constexpr (is_list_of_numbers<T>) {
      // nlohmann would take any number for each, and cut it to fit.
      if (!at->is_array()) throw wrong(name, "a list of whole numbers");
      out.clear();
      for (const nlohmann::json& item : *at) out.push_back(integer<typename T::value_type>(item, name));
    } else {
      try {
        at->get_to(out);
      } catch (const nlohmann::json::exception&) {
        throw wrong(name, "of its documented form");
      }
    }
  }

 private:
  Error wrong(const char* name, const char* kind) const { return Error(what_ + "." + name + ": must be " + kind); }

  template <class T>
  T integer(const nlohmann::json& value, const char* name) const {
    if (!value.is_number_integer()) throw wrong(name, "a whole number");
    if (value.is_number_unsigned()) {
      const auto number = value.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) throw wrong(name, "a smaller number");
      return static_cast<T>(number);
    }
    // Signed storage may hold positive numbers too, when the document was built rather than parsed.
    const auto number = value.get<std::int64_t>();
    if (number > 0 && static_cast<std::uint64_t>(number) > static_cast<std::uint64_t>(std::numeric_limits<T>::max()))
      throw wrong(name, "a smaller number");
    if (std::is_unsigned_v<T> ? number < 0 : number < static_cast<std::int64_t>(std::numeric_limits<T>::min()))
      throw wrong(name, "a larger number");
    return static_cast<T>(number);
  }

  const nlohmann::json& object_;
  std::string what_;
};

}  // namespace espalier
