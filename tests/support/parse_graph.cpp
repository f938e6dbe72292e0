// The text has one fact per line. A cursor reads the line, and every number is checked before it is used as an index.
#include "tests/support/parse_graph.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "graph/base/utf8.h"

namespace xrun {
namespace {

// `print` never writes nearly this many values. The limit bounds the memory that a wrong id can allocate.
constexpr int64_t kMostValues = 1 << 24;

class Cursor {
 public:
  Cursor(std::string_view line, int number) : rest_(line), number_(number) {}

  Error fault(const std::string& what) const {
    return {ErrorKind::kContent, "", "graph text, line " + std::to_string(number_) + ": " + what, "", {}};
  }
  bool take(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) {
      return false;
    }
    rest_.remove_prefix(token.size());
    return true;
  }
  Status expect(std::string_view token) {
    return take(token) ? Status() : Status(fault("expected `" + std::string(token) + "`"));
  }
  bool done() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }

  // Returns the text up to one of the stop characters, which is not consumed.
  std::string_view until(std::string_view stops) {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(stops));
    rest_.remove_prefix(word.size());
    return word;
  }
  Result<int64_t> integer() {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc()) {
      return fault("expected a whole number");
    }
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  Result<ValueId> value_id() {
    XRUN_TRY(expect("%"));
    XRUN_ASSIGN(const int64_t index, integer());
    if (index < 0 || index >= kMostValues) {
      return fault("value id out of range");
    }
    return ValueId(static_cast<size_t>(index));
  }
  Result<std::string> quoted() {
    XRUN_TRY(expect("\""));
    std::string text;
    while (!rest_.empty() && rest_.front() != '"') {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\' && !rest_.empty()) {
        if (rest_.starts_with("u{")) {
          XRUN_TRY(character(text));
          continue;
        }
        c = rest_.front() == 'n' ? '\n' : rest_.front();
        rest_.remove_prefix(1);
      }
      text += c;
    }
    XRUN_TRY(expect("\""));
    return text;
  }
  // Parses u{1B}, the part of an escape after its backslash.
  Status character(std::string& text) {
    rest_.remove_prefix(2);
    uint32_t code = 0;
    const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), code, 16);
    if (problem != std::errc() || code > 0x10FFFF) {
      return fault("expected the number of a character");
    }
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    append_utf8(text, code);
    return expect("}");
  }
  Result<AttrValue> number() {
    const std::string_view word = until(",]}) ");
    if (word.find_first_of(".en") == std::string_view::npos) {
      int64_t whole = 0;
      const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), whole);
      if (code == std::errc() && end == word.data() + word.size()) {
        return AttrValue(whole);
      }
      return fault("expected a number");
    }
    double real = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), real);
    if (code != std::errc() || end != word.data() + word.size()) {
      return fault("expected a number");
    }
    return AttrValue(real);
  }

 private:
  std::string_view rest_;
  int number_;
};

Result<AttrValue> parse_list(Cursor& c) {
  std::vector<int64_t> whole;
  std::vector<double> real;
  std::vector<std::string> texts;
  while (!c.take("]")) {
    if (c.peek() == '"') {
      XRUN_ASSIGN(std::string text, c.quoted());
      texts.push_back(std::move(text));
    } else {
      XRUN_ASSIGN(AttrValue value, c.number());
      if (const auto* w = std::get_if<int64_t>(&value)) {
        whole.push_back(*w);
      } else {
        real.push_back(std::get<double>(value));
      }
    }
    if (c.peek() != ']') {
      XRUN_TRY(c.expect(", "));
    }
  }
  if (!texts.empty()) {
    return AttrValue(std::move(texts));
  }
  return real.empty() ? AttrValue(std::move(whole)) : AttrValue(std::move(real));
}

Result<AttrValue> parse_attr(Cursor& c) {
  if (c.take("true")) {
    return AttrValue(true);
  }
  if (c.take("false")) {
    return AttrValue(false);
  }
  if (c.peek() == '"') {
    XRUN_ASSIGN(std::string text, c.quoted());
    return AttrValue(std::move(text));
  }
  return c.take("[") ? parse_list(c) : c.number();
}

Result<TensorType> parse_type(Cursor& c) {
  TensorType type;
  const std::string_view name = c.until("([");
  if (name == "index") {
    XRUN_TRY(c.expect("("));
    XRUN_ASSIGN(type.classes, c.integer());
    XRUN_TRY(c.expect(")"));
    type.dtype = DType::kI32;
  } else if (name == "sharded") {
    type.sharded = true;
  } else {
    const auto dtype = parse_dtype(name);
    if (!dtype) {
      return c.fault("unknown dtype `" + std::string(name) + "`");
    }
    type.dtype = *dtype;
  }
  XRUN_TRY(c.expect("["));
  while (!c.take("]")) {
    if (c.take("N")) {
      type.dims.push_back(kBatch);
    } else if (c.take("G")) {
      type.dims.push_back(kPerBlock);
    } else {
      XRUN_ASSIGN(const int64_t dim, c.integer());
      type.dims.push_back(dim);
    }
    if (c.peek() != ']') {
      XRUN_TRY(c.expect(", "));
    }
  }
  type.layout = c.take(" channels_last") ? Layout::kChannelsLast : Layout::kRowMajor;
  return type;
}

Result<Init> parse_init(Cursor& c) {
  const std::string_view kind = c.until("(");
  XRUN_TRY(c.expect("("));
  XRUN_ASSIGN(const AttrValue value, c.number());
  XRUN_TRY(c.expect(")"));
  const auto* whole = std::get_if<int64_t>(&value);
  const double real = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
  if (kind == "he_normal") {
    return Init{Init::kHeNormal, 0, static_cast<int64_t>(real)};
  }
  if (kind == "constant" || kind == "normal") {
    return Init{kind == "normal" ? Init::kNormal : Init::kConstant, real, 0};
  }
  return c.fault("unknown first value");
}

class GraphReader {
 public:
  explicit GraphReader(const OpRegistry& registry) : registry_(registry) {}

  Status line(Cursor c) {
    if (c.take("input ")) {
      return input(c);
    }
    if (c.take("param ")) {
      return parameter(c, true);
    }
    if (c.take("state ")) {
      return parameter(c, false);
    }
    if (c.take("#")) {
      return node(c);
    }
    if (c.take("bind ")) {
      return named(c, graph_.bindings);
    }
    if (c.take("output ")) {
      return named(c, graph_.outputs);
    }
    if (c.take("head ")) {
      return head(c);
    }
    if (c.take("metric ")) {
      XRUN_ASSIGN(const ValueId id, known(c));
      graph_.metrics.push_back(id);
      return {};
    }
    if (c.take("loss ")) {
      XRUN_ASSIGN(const ValueId rows, known(c));
      graph_.loss.push_back({rows});
      if (!c.take(" by ")) {
        return {};
      }
      XRUN_ASSIGN(const AttrValue by, c.number());
      const auto* whole = std::get_if<int64_t>(&by);
      graph_.loss.back().factor = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(by);
      return {};
    }
    return c.take("grad ") ? grad(c) : Status(c.fault("unknown kind of line"));
  }

  Result<Graph> finish() && {
    for (size_t i = 0; i < defined_.size(); ++i) {
      if (!defined_[i]) {
        return Error{ErrorKind::kContent, "", "graph text: %" + std::to_string(i) + " is never made", ""};
      }
    }
    return std::move(graph_);
  }

 private:
  Status define(const Cursor& c, ValueId id, Value value) {
    const auto at = static_cast<size_t>(id.index);
    if (at >= graph_.values.size()) {
      graph_.values.resize(at + 1);
      defined_.resize(at + 1, false);
    }
    if (defined_[at]) {
      return c.fault("%" + std::to_string(at) + " is made twice");
    }
    defined_[at] = true;
    graph_.values[at] = std::move(value);
    return {};
  }
  Result<ValueId> known(Cursor& c) {
    XRUN_ASSIGN(const ValueId id, c.value_id());
    const auto at = static_cast<size_t>(id.index);
    if (at >= defined_.size() || !defined_[at]) {
      return c.fault("%" + std::to_string(at) + " is read before it is made");
    }
    return id;
  }
  Status input(Cursor& c) {
    XRUN_ASSIGN(const ValueId id, c.value_id());
    XRUN_TRY(c.expect(" "));
    std::string name(c.until(":"));
    XRUN_TRY(c.expect(": "));
    XRUN_ASSIGN(TensorType type, parse_type(c));
    XRUN_TRY(define(c, id, {.type = std::move(type), .name = name, .is_input = true}));
    graph_.inputs.push_back({std::move(name), id});
    return {};
  }
  Status parameter(Cursor& c, bool trained) {
    XRUN_ASSIGN(const ValueId id, c.value_id());
    XRUN_TRY(c.expect(" "));
    std::string name(c.until(":"));
    XRUN_TRY(c.expect(": "));
    XRUN_ASSIGN(TensorType type, parse_type(c));
    XRUN_TRY(c.expect(" "));
    XRUN_ASSIGN(const Init init, parse_init(c));
    const ParamId param(graph_.params.size());
    XRUN_TRY(define(c, id, {.type = std::move(type), .name = name, .param = param}));
    Parameter made{.name = std::move(name), .value = id, .init = init, .trained = trained};
    made.head = c.take(" head");
    made.frozen = c.take(" frozen");
    graph_.params.push_back(std::move(made));
    return {};
  }
  Result<NodeId> node_id(Cursor& c, size_t below) {
    XRUN_ASSIGN(const int64_t index, c.integer());
    if (index < 0 || static_cast<size_t>(index) >= below) {
      return c.fault("node id out of range");
    }
    return NodeId(static_cast<size_t>(index));
  }
  Status node(Cursor& c) {
    XRUN_ASSIGN(const NodeId id, node_id(c, graph_.nodes.size() + 1));
    if (static_cast<size_t>(id.index) != graph_.nodes.size()) {
      return c.fault("nodes are numbered in order");
    }
    Node node;
    if (c.take(" back(#")) {
      node.phase = Phase::kBackward;
      XRUN_ASSIGN(node.forward, node_id(c, graph_.nodes.size()));
      XRUN_TRY(c.expect(")"));
    }
    std::vector<TensorType> types;
    XRUN_TRY(c.expect(" "));
    while (!c.take("= ")) {
      XRUN_ASSIGN(const ValueId output, c.value_id());
      XRUN_TRY(c.expect(": "));
      XRUN_ASSIGN(TensorType type, parse_type(c));
      node.outputs.push_back(output);
      types.push_back(std::move(type));
      c.take(",");
      XRUN_TRY(c.expect(" "));
    }
    const std::string_view name = c.until("(");
    node.op = registry_.find(name);
    if (node.op == nullptr) {
      return c.fault("unknown operator `" + std::string(name) + "`");
    }
    XRUN_TRY(c.expect("("));
    while (!c.take(")")) {
      XRUN_ASSIGN(const ValueId read, known(c));
      node.inputs.push_back(read);
      c.take(", ");
    }
    if (c.take(" {")) {
      while (!c.take("}")) {
        const std::string key(c.until("="));
        XRUN_TRY(c.expect("="));
        XRUN_ASSIGN(AttrValue value, parse_attr(c));
        node.attrs.set(key, std::move(value));
        c.take(", ");
      }
    }
    XRUN_TRY(c.expect(" @"));
    node.path = std::string(c.until(""));
    // Parameters that belong to a call have its path before their name.
    const auto is_own = [&](ValueId read) {
      return node.phase == Phase::kForward && graph_.value(read).param.valid() &&
             graph_.param(graph_.value(read).param).name.starts_with(node.path + ".");
    };
    node.operands = static_cast<int>(node.inputs.size());
    while (node.operands > 0 && is_own(node.inputs[static_cast<size_t>(node.operands) - 1])) {
      --node.operands;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      XRUN_TRY(define(c, node.outputs[i],
                      {.type = types[i], .name = node.path, .producer = id, .output = static_cast<int>(i)}));
    }
    graph_.nodes.push_back(std::move(node));
    return {};
  }
  Status named(Cursor& c, std::vector<NamedValue>& list) {
    std::string name(c.until(" "));
    XRUN_TRY(c.expect(" "));
    XRUN_ASSIGN(const ValueId id, known(c));
    list.push_back({std::move(name), id});
    return {};
  }
  Status head(Cursor& c) {
    std::string name(c.until(" "));
    XRUN_TRY(c.expect(" #"));
    XRUN_ASSIGN(const NodeId id, node_id(c, graph_.nodes.size()));
    graph_.heads.push_back({std::move(name), id, {}});
    return {};
  }
  Status grad(Cursor& c) {
    const std::string name(c.until(" "));
    XRUN_TRY(c.expect(" "));
    XRUN_ASSIGN(const ValueId id, known(c));
    const auto param = std::ranges::find(graph_.params, name, &Parameter::name);
    if (param == graph_.params.end()) {
      return c.fault("unknown parameter `" + name + "`");
    }
    graph_.param_grads.resize(graph_.params.size());
    graph_.param_grads[graph_.value(param->value).param] = id;
    return {};
  }

  const OpRegistry& registry_;
  Graph graph_;
  std::vector<bool> defined_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const OpRegistry& registry) {
  GraphReader reader(registry);
  int number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    if (!line.empty()) {
      XRUN_TRY(reader.line(Cursor(line, number)));
    }
  }
  return std::move(reader).finish();
}

}  // namespace xrun
