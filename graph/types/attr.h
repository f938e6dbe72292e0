// Constant arguments of an operator, a reader, an augmentation, an optimizer or a metric.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xrun {

// A list of strings. It is a type of its own because libstdc++ 12 assumes that a variant of only numbers and standard
// containers always has a value: if a copy then fails for lack of memory, the variant's destructor destroys a value
// that does not exist. A type that is not from libstdc++ prevents that (tests/graph/types/attr_test.cpp).
struct TextList : std::vector<std::string> {
  using std::vector<std::string>::vector;
  TextList(std::vector<std::string> texts) : vector(std::move(texts)) {}
};

// The value of one argument. A range a..b is stored as two whole numbers, a symbol such as `capped` as a string.
using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, TextList>;

// The arguments of one call. They are kept in name order, so that equal arguments print and hash alike.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> values);

  void set(std::string_view name, AttrValue value);
  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The value of an argument. REQUIRES: it exists and has this kind; `real` and `reals` also accept whole numbers.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  // The value of an argument, or `otherwise` if the argument is absent. REQUIRES: an existing value has this kind.
  bool flag(std::string_view name, bool otherwise) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;

  const std::vector<std::pair<std::string, AttrValue>>& all() const { return values_; }
  bool operator==(const Attrs&) const = default;

 private:
  std::vector<std::pair<std::string, AttrValue>> values_;
};

std::string to_text(const AttrValue& value);  // text of one value; floats in the shortest form that reads back exactly
std::string to_text(const Attrs& attrs);      // text of all arguments: "k=3, stride=2"

}  // namespace xrun
