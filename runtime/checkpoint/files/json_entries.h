// Reads the entries of a JSON object with checked types.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace xrun::runtime {

using Json = nlohmann::json;

// Reads typed entries; good() returns false once an entry was missing or had another type.
class Entries {
 public:
  explicit Entries(const Json& object) : json_(object) {}

  template <typename T>
  void read(const char* name, T& to) {
    const auto at = json_.find(name);
    if (at == json_.end() || !fits(*at, to)) {
      good_ = false;
    } else {
      to = at->template get<T>();
    }
  }
  bool good() const { return good_; }
  const Json* list(const char* name) {
    const auto at = json_.find(name);
    good_ = good_ && at != json_.end() && at->is_array();
    return good_ ? &*at : nullptr;
  }

 private:
  static bool fits(const Json& value, const int64_t&) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  }
  static bool fits(const Json& value, const uint64_t&) { return value.is_number_unsigned(); }
  static bool fits(const Json& value, const double&) { return value.is_number(); }
  static bool fits(const Json& value, const bool&) { return value.is_boolean(); }
  static bool fits(const Json& value, const std::string&) { return value.is_string(); }

  const Json& json_;
  bool good_ = true;
};

}  // namespace xrun::runtime
