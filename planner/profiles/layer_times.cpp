// The text is parsed by events, because a parsed tree would hide repeated names and have no lines. Parsing ends at the
// first fault, so objects are never nested deeper than the format has them.
#include "planner/profiles/layer_times.h"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "graph/base/errors.h"

namespace xrun::planner {
namespace {

using nlohmann::json;

constexpr size_t kMostLayers = 100'000;
constexpr size_t kLongestName = 1000;
constexpr int64_t kMostRows = 1'000'000'000;
constexpr double kMostMilliseconds = 1e9;
constexpr Seconds kMillisecond = 1e-3;
constexpr const char* kForm = R"(write {"rows": 64, "layers": {"NAME": {"forward_ms": 1.5, "backward_ms": 3}}})";

// The characters of a text, for the parser. `last` is set to the place of the last character that was read.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Characters(const char* at, const char** last) : at_(at), last_(last) {}
  const char& operator*() const { return *at_; }
  Characters& operator++() {
    *last_ = at_++;
    return *this;
  }
  bool operator==(const Characters& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** last_;
};

class TimesReader : public json::json_sax_t {
 public:
  TimesReader(std::string_view text, std::string_view name) : text_(text), counted_(text.data()), last_(text.data()) {
    times_.file = std::string(name);
    begin_ = Characters(text.data(), &last_);
    end_ = Characters(text.data() + text.size(), &last_);
  }

  Result<LayerTimes> read() {
    if (!json::sax_parse(begin_, end_, this)) {
      return content_error("XG0632", fmt::format("{}:{}: {}", times_.file, line(), why_), std::move(help_));
    }
    return std::move(times_);
  }

  bool null() override { return misplaced("a null"); }
  bool boolean(bool) override { return misplaced("a true or false"); }
  bool string(string_t&) override { return misplaced("a string"); }
  bool binary(binary_t&) override { return misplaced("binary data"); }
  bool start_array(std::size_t) override { return misplaced("a list"); }
  bool end_array() override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), false); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value), true); }
  bool number_float(number_float_t value, const string_t&) override { return number(value, false); }

  bool start_object(std::size_t) override {
    if (place_ == kNothing) {
      place_ = kRoot;
    } else if (place_ == kRoot && key_ == "layers") {
      place_ = kLayers;
    } else if (place_ == kLayers) {
      place_ = kLayer;
      has_forward_ = false;
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == kLayers) {
      return start_layer(value);
    }
    const bool known =
        place_ == kRoot ? value == "rows" || value == "layers" : value == "forward_ms" || value == "backward_ms";
    if (!known) {
      return fail({"unknown entry `{}`", value.substr(0, kLongestName)},
                  place_ == kRoot ? "the file has `rows` and `layers`" : "a layer has `forward_ms` and `backward_ms`");
    }
    key_ = value;
    const bool twice = place_ == kRoot         ? value == "rows" ? has_rows_ : has_layers_
                       : value == "forward_ms" ? has_forward_
                                               : times_.layers.back().backward.has_value();
    has_layers_ = has_layers_ || (place_ == kRoot && value == "layers");
    return !twice || fail({"`{}` is there twice", value}, "leave one of them out");
  }

  bool end_object() override {
    if (place_ == kLayer) {
      place_ = kLayers;
      return has_forward_ || fail({"layer `{}` has no `forward_ms`", times_.layers.back().name},
                                  R"(add its time in milliseconds: "forward_ms": 1.5)");
    }
    if (place_ == kLayers) {
      place_ = kRoot;
      return !times_.layers.empty() || fail("`layers` is empty", kForm);
    }
    place_ = kNothing;
    if (!has_rows_ || !has_layers_) {
      return fail({"no `{}`", has_rows_ ? "layers" : "rows"},
                  has_rows_ ? kForm : R"(add the number of rows for which the times are: "rows": 64)");
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    constexpr int kOutOfRange = 406;  // a number that is too large
    if (fault.id == kOutOfRange) {
      return fail("a number is too large", "write a number from 0 to 10^9");
    }
    const bool is_profile = text_.find(" -- ") != std::string_view::npos;
    return fail("the text is not JSON",
                is_profile
                    ? Text("a profile is cut without a model: xrun plan --layer-times {} --stages 8", times_.file)
                    : Text(kForm));
  }

 private:
  bool fail(Text why, Text help) {
    why_ = std::move(why.text);
    help_ = std::move(help.text);
    return false;
  }

  // The name of the entry that is read, in messages.
  std::string entry() const {
    return place_ == kNothing  ? "the file"
           : place_ == kLayers ? "`" + times_.layers.back().name + "`"
           : place_ == kLayer  ? "`" + key_ + "` of `" + times_.layers.back().name + "`"
                               : "`" + key_ + "`";
  }

  bool misplaced(const char* kind) {
    const bool is_object = place_ == kNothing || place_ == kLayers || (place_ == kRoot && key_ == "layers");
    return fail({"{} is {}, not {}", entry(), kind, is_object ? "an object" : "a number"},
                place_ == kLayers ? R"(write {"forward_ms": 1.5, "backward_ms": 3})" : kForm);
  }

  bool start_layer(const std::string& name) {
    if (times_.layers.size() == kMostLayers) {
      return fail("more than 100 000 layers", "name layers that have several operators");
    }
    if (name.size() > kLongestName) {
      return fail("a name has more than 1000 bytes", "correct the name of the layer");
    }
    if (!names_.insert(name).second) {
      return fail({"layer `{}` is there twice", name}, "leave one of them out");
    }
    times_.layers.push_back({.name = name, .line = line()});
    return true;
  }

  bool number(double value, bool is_natural) {
    if (place_ == kRoot && key_ == "rows") {
      has_rows_ = true;
      times_.rows = is_natural && value <= static_cast<double>(kMostRows) ? static_cast<int64_t>(value) : 0;
      return times_.rows > 0 || fail({"`rows` is {}", value}, "write a whole number from 1 to 10^9");
    }
    if (place_ != kLayer) {
      return misplaced("a number");
    }
    if (!(value >= 0 && value <= kMostMilliseconds)) {
      return fail({"{} is {}, not a time in milliseconds", entry(), value}, "write a number from 0 to 10^9");
    }
    TimedLayer& layer = times_.layers.back();
    if (key_ == "forward_ms") {
      has_forward_ = true;
      layer.forward = value * kMillisecond;
    } else {
      layer.backward = value * kMillisecond;
    }
    return true;
  }

  // Returns the line of the last character that was read. A number ends before a character that is read with it.
  int line() {
    for (; counted_ < last_; ++counted_) {
      line_ += *counted_ == '\n' ? 1 : 0;
    }
    return line_;
  }

  enum { kNothing, kRoot, kLayers, kLayer } place_ = kNothing;
  std::string_view text_;
  const char* counted_;
  const char* last_;
  int line_ = 1;
  Characters begin_{nullptr, nullptr};
  Characters end_{nullptr, nullptr};
  std::string key_;
  bool has_rows_ = false;
  bool has_layers_ = false;
  bool has_forward_ = false;
  std::unordered_set<std::string> names_;
  LayerTimes times_;
  std::string why_;
  std::string help_;
};

}  // namespace

Result<LayerTimes> parse_layer_times(std::string_view text, std::string_view name) {
  return TimesReader(text, name).read();
}

}  // namespace xrun::planner
