#include "graph/types/attr.h"

#include <algorithm>
#include <charconv>

#include "graph/base/check.h"
#include "graph/base/utf8.h"

namespace xrun {
namespace {

template <typename T>
const T& expect(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  XRUN_CHECK(value != nullptr, "missing attribute " + std::string(name));
  const T* typed = std::get_if<T>(value);
  XRUN_CHECK(typed != nullptr, "attribute of another kind: " + std::string(name));
  return *typed;
}

std::string shortest(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  // A real always reads back as a real.
  if (text.find_first_of(".en") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    if (c == '\n') {
      out += "\\n";
    } else if (is_control(c)) {
      out += escape_of(c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <typename T, typename Print>
std::string listed(const std::vector<T>& values, Print print) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    out += (i > 0 ? ", " : "") + print(values[i]);
  }
  return out + "]";
}

}  // namespace

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> values) {
  for (const auto& [name, value] : values) {
    set(name, value);
  }
}

void Attrs::set(std::string_view name, AttrValue value) {
  const auto at = std::lower_bound(values_.begin(), values_.end(), name,
                                   [](const auto& a, std::string_view b) { return a.first < b; });
  if (at != values_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    values_.emplace(at, std::string(name), std::move(value));
  }
}

const AttrValue* Attrs::find(std::string_view name) const {
  const auto at = std::lower_bound(values_.begin(), values_.end(), name,
                                   [](const auto& a, std::string_view b) { return a.first < b; });
  return at != values_.end() && at->first == name ? &at->second : nullptr;
}

bool Attrs::flag(std::string_view name) const { return expect<bool>(*this, name); }

int64_t Attrs::integer(std::string_view name) const { return expect<int64_t>(*this, name); }

double Attrs::real(std::string_view name) const {
  const AttrValue* value = find(name);
  XRUN_CHECK(value != nullptr, "missing attribute " + std::string(name));
  if (const auto* whole = std::get_if<int64_t>(value)) {
    return static_cast<double>(*whole);
  }
  return expect<double>(*this, name);
}

const std::string& Attrs::text(std::string_view name) const { return expect<std::string>(*this, name); }

const std::vector<int64_t>& Attrs::integers(std::string_view name) const {
  return expect<std::vector<int64_t>>(*this, name);
}

std::vector<double> Attrs::reals(std::string_view name) const {
  const AttrValue* value = find(name);
  XRUN_CHECK(value != nullptr, "missing attribute " + std::string(name));
  if (const auto* whole = std::get_if<std::vector<int64_t>>(value)) {
    return {whole->begin(), whole->end()};
  }
  return expect<std::vector<double>>(*this, name);
}

const std::vector<std::string>& Attrs::texts(std::string_view name) const { return expect<TextList>(*this, name); }

bool Attrs::flag(std::string_view name, bool otherwise) const { return has(name) ? flag(name) : otherwise; }

int64_t Attrs::integer(std::string_view name, int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }

double Attrs::real(std::string_view name, double otherwise) const { return has(name) ? real(name) : otherwise; }

std::string to_text(const AttrValue& value) {
  struct Printer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return shortest(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return listed(v, [](int64_t x) { return std::to_string(x); });
    }
    std::string operator()(const std::vector<double>& v) const { return listed(v, shortest); }
    std::string operator()(const std::vector<std::string>& v) const { return listed(v, quoted); }
  };
  return std::visit(Printer(), value);
}

std::string to_text(const Attrs& attrs) {
  std::string out;
  for (const auto& [name, value] : attrs.all()) {
    out += (out.empty() ? "" : ", ") + name + "=" + to_text(value);
  }
  return out;
}

}  // namespace xrun
