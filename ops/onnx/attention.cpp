// Attention as products and a softmax. With windows, the positions are first put into the order of the windows, and
// back into their own order at the end; each window is then a matrix of its own. The bias of relative places is taken
// from its table by a constant index, and places that a query must not see get -infinity.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <array>
#include <cmath>
#include <limits>

#include "ops/attention/attention_windows.h"
#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

struct Form {
  Windows windows;
  int64_t t, d, heads;
  bool causal, relative, qkv_bias;
  bool whole() const { return windows.is_whole(); }
};

// Returns the positions in the order of the windows, or the places of the positions in that order.
std::vector<int64_t> order_of(const Windows& w, bool back) {
  std::vector<int64_t> order(static_cast<size_t>(w.count() * w.tokens()));
  for (int64_t i = 0; i < std::ssize(order); ++i) {
    const int64_t position = w.position(i / w.tokens(), i % w.tokens());
    order[static_cast<size_t>(back ? position : i)] = back ? i : position;
  }
  return order;
}

std::string reordered(OnnxBuilder& to, const std::string& x, const Windows& w, bool back) {
  const int64_t t = w.count() * w.tokens();
  return to.add("Gather", {x, to.integers(order_of(w, back), {t})}, {{"axis", int64_t{1}}});
}

// For each query and key of a window, the place of its bias in the table of a head.
std::vector<int64_t> places_of(const Windows& w) {
  std::vector<int64_t> places;
  for (int64_t query = 0; query < w.tokens(); ++query) {
    for (int64_t key = 0; key < w.tokens(); ++key) {
      const int64_t row = key / w.columns - query / w.columns + w.rows - 1;
      const int64_t column = key % w.columns - query % w.columns + w.columns - 1;
      places.push_back(row * (2 * w.columns - 1) + column);
    }
  }
  return places;
}

// Returns the constant that is added to the scores so that queries see only some keys: [t, t], or [windows, 1, t, t].
// Empty: queries see all keys.
std::string mask(OnnxBuilder& to, const Form& f) {
  const bool regions = f.windows.is_shifted();
  if (!f.causal && !regions) {
    return {};
  }
  const int64_t t = f.windows.tokens();
  const int64_t count = regions ? f.windows.count() : 1;
  std::vector<float> hidden;
  for (int64_t w = 0; w < count; ++w) {
    for (int64_t query = 0; query < t; ++query) {
      for (int64_t key = 0; key < t; ++key) {
        const bool seen =
            (!f.causal || key <= query) && (!regions || f.windows.region(w, key) == f.windows.region(w, query));
        hidden.push_back(seen ? 0 : -std::numeric_limits<float>::infinity());
      }
    }
  }
  return to.floats(std::move(hidden), regions ? std::vector<int64_t>{count, 1, t, t} : std::vector<int64_t>{t, t});
}

// Softmax of the scaled products of queries and keys [..., heads, t, d], with bias and mask.
std::string probabilities(OnnxBuilder& to, const Form& f, const std::string& q, const std::string& k,
                          const std::string& relative) {
  std::vector<int64_t> turned = f.whole() ? std::vector<int64_t>{0, 1, 3, 2} : std::vector<int64_t>{0, 1, 2, 4, 3};
  std::string scores = to.add("MatMul", {q, to.transpose(k, std::move(turned))});
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(f.d / f.heads)));
  scores = to.add("Mul", {scores, to.number(scale)});
  if (f.relative) {
    const int64_t t = f.windows.tokens();
    const std::string table = to.reshape(relative, {f.heads, f.windows.offsets()});
    const std::string bias =
        to.add("Gather", {table, to.integers(places_of(f.windows), {t, t})}, {{"axis", int64_t{1}}});
    scores = to.add("Add", {scores, bias});
  }
  if (const std::string hidden = mask(to, f); !hidden.empty()) {
    scores = to.add("Add", {scores, hidden});
  }
  return to.add("Softmax", {scores}, {{"axis", int64_t{-1}}});
}

// Steps:
//   1. [q k v] = x Wᵀ + b, in the order of the windows: [N, T, 3 D].
//   2. Cut into heads: three tensors [N, heads, T, d], or [N, windows, heads, t, d].
//   3. Products, softmax, products.
//   4. Join the heads, restore the order of the positions, and multiply by the projection.
Status attention(OnnxBuilder& to, const Node& node) {
  const TensorType& x = type_of_input(to, node, 0);
  XRUN_ASSIGN(const Windows windows, Windows::of(x.dims[1], node.attrs));
  const Form f{.windows = windows,
               .t = x.dims[1],
               .d = x.dims[2],
               .heads = node.attrs.integer("heads"),
               .causal = node.attrs.flag("causal", false),
               .relative = node.attrs.flag("relative", false),
               .qkv_bias = node.attrs.flag("qkv_bias")};
  const size_t proj = f.qkv_bias ? 3 : 2;
  std::string qkv =
      to.product(input_of(to, node, 0), 3, node.inputs[1], f.qkv_bias ? input_of(to, node, 2) : std::string());
  const int64_t d = f.d / f.heads;
  if (f.whole()) {
    qkv = to.transpose(to.reshape(qkv, {0, f.t, 3, f.heads, d}), {2, 0, 3, 1, 4});
  } else {
    qkv = reordered(to, qkv, windows, false);
    qkv = to.reshape(qkv, {0, windows.count(), windows.tokens(), 3, f.heads, d});
    qkv = to.transpose(qkv, {3, 0, 1, 4, 2, 5});
  }
  std::array<std::string, 3> parts;
  for (int64_t i = 0; i < 3; ++i) {
    parts[static_cast<size_t>(i)] = to.add("Gather", {qkv, to.integers({i}, {})}, {{"axis", int64_t{0}}});
  }
  const std::string table = f.relative ? input_of(to, node, proj + 2) : std::string();
  const std::string o = to.add("MatMul", {probabilities(to, f, parts[0], parts[1], table), parts[2]});
  std::string joined =
      to.transpose(o, f.whole() ? std::vector<int64_t>{0, 2, 1, 3} : std::vector<int64_t>{0, 1, 3, 2, 4});
  joined = to.reshape(joined, {0, f.t, f.d});
  if (!f.whole()) {
    joined = reordered(to, joined, windows, true);
  }
  return set_result(to, node, to.product(joined, 3, node.inputs[proj], input_of(to, node, proj + 1)));
}

constexpr std::array<NamedOnnxRule, 1> kRules{{{"attention", attention}}};

}  // namespace

std::span<const NamedOnnxRule> attention_rules() { return kRules; }

}  // namespace xrun::ops
