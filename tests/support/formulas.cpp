#include "tests/support/formulas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "graph/base/random.h"
#include "graph/types/scalar_expr.h"
#include "tests/support/naive_ops.h"

namespace xrun::test {
namespace {

using Index = std::vector<int64_t>;
using Values = std::vector<double>;
using Call = FormulaCall;

int64_t place(int64_t axis, size_t rank) { return axis < 0 ? axis + static_cast<int64_t>(rank) : axis; }
int64_t axis_of(const Call& c) { return place(c.attrs.integer("axis", -1), c.in[0].dims.size()); }

naive::Image image_of(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}; }

// Returns an attribute for the height and the width of an image: one number for both, or a list of two.
naive::Pair pair_of(const Call& c, std::string_view name, naive::Pair otherwise) {
  const AttrValue* value = c.attrs.find(name);
  if (value == nullptr) {
    return otherwise;
  }
  const auto* two = std::get_if<std::vector<int64_t>>(value);
  return two == nullptr ? naive::Pair(c.attrs.integer(name)) : naive::Pair(two->at(0), two->at(1));
}

naive::Window window_of(const Call& c, int64_t groups) {
  const naive::Pair k = pair_of(c, "k", 1);
  return {k, pair_of(c, "stride", 1), pair_of(c, "pad", {k.h / 2, k.w / 2}), pair_of(c, "dilation", 1), groups};
}

Values bias_of(const Call& c, size_t input) { return input < c.in.size() ? c.in[input].values : Values{}; }

// Computes f(index) for every element of the output.
template <typename F>
Values each(const Index& dims, const F& f) {
  Values out;
  Index i(dims.size(), 0);
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t n = 0; n < count; ++n) {
    out.push_back(f(std::as_const(i)));
    for (size_t d = dims.size(); d-- > 0 && ++i[d] == dims[d];) {
      i[d] = 0;
    }
  }
  return out;
}

// Returns the elements of x along `axis` that have the other coordinates of `i`.
Values fiber(const Tensor& x, Index i, int64_t axis) {
  Values out;
  int64_t& at = i[static_cast<size_t>(axis)];
  for (at = 0; at < x.dim(static_cast<int>(axis)); ++at) {
    out.push_back(x.at(i));
  }
  return out;
}

double sum(const Values& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
double mean(const Values& v) { return sum(v) / static_cast<double>(v.size()); }
double length(const Values& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double log_sum_exp(const Values& v) {
  const double top = *std::ranges::max_element(v);
  return top +
         std::log(std::accumulate(v.begin(), v.end(), 0.0, [&](double s, double x) { return s + std::exp(x - top); }));
}

const std::map<std::string_view, double (*)(double)>& functions() {
  static const std::map<std::string_view, double (*)(double)> all{
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"gelu", [](double x) { return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2; }},
      {"silu", [](double x) { return x * sigmoid(x); }},
      {"sigmoid", sigmoid},
      {"tanh", std::tanh},
      {"exp", std::exp},
      {"log", std::log},
      {"sqrt", std::sqrt},
      {"abs", std::abs},
      {"neg", [](double x) { return -x; }},
      {"erf", std::erf},
      {"sin", std::sin},
      {"cos", std::cos},
      {"acos", std::acos},
      {"cast", [](double x) { return x; }},
      {"stop_gradient", [](double x) { return x; }},
      {"flatten", [](double x) { return x; }},  // the logical order stays the same
      {"reshape", [](double x) { return x; }},
      {"reorder", [](double x) { return x; }},
  };
  return all;
}

// Returns the stream of random draws, which is keyed by position in the batch and by element
// (docs/internals/determinism.md).
RandomStream draws(const Call& c, int64_t row) { return {7, 3, static_cast<uint64_t>(row), stable_hash(c.path)}; }

Values dropout(const Call& c) {
  const double p = c.attrs.real("p");
  const auto size = static_cast<int64_t>(c.in[0].values.size()) / c.in[0].dim(0);
  Values y = c.in[0].values;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    y[i] *= draws(c, at / size).bits(static_cast<uint64_t>(at % size)) < p * 0x1p32 ? 0 : 1 / (1 - p);
  }
  return y;
}

Values normalized(const Call& c, bool centred) {
  const auto last = static_cast<int64_t>(c.out.size()) - 1;
  return each(c.out, [&](const Index& i) {
    Values x = fiber(c.in[0], i, last);
    const double m = centred ? mean(x) : 0;
    std::ranges::transform(x, x.begin(), [&](double v) { return (v - m) * (v - m); });
    const double scaled = (c.in[0].at(i) - m) / std::sqrt(mean(x) + c.attrs.real("eps"));
    return scaled * c.in[1].at({i.back()}) + (centred ? c.in[2].at({i.back()}) : 0);
  });
}

Values batch_norm(const Call& c) {
  const naive::Image image = c.in[0].dims.size() == 4 ? image_of(c.in[0]) : naive::Image{c.out[0], c.out[1], 1, 1};
  return naive::batch_norm(c.in[0].values, image, c.in[1].values, c.in[2].values, c.attrs.real("eps")).y;
}

Values group_norm(const Call& c) {
  const Tensor& x = c.in[0];
  const int64_t width = x.dim(1) / c.attrs.integer("groups");
  return each(c.out, [&](const Index& i) {
    Values group = each({width, x.dim(2), x.dim(3)}, [&](const Index& at) {
      return x.at({i[0], i[1] / width * width + at[0], at[1], at[2]});
    });
    const double m = mean(group);
    std::ranges::transform(group, group.begin(), [&](double v) { return (v - m) * (v - m); });
    return (x.at(i) - m) / std::sqrt(mean(group) + c.attrs.real("eps")) * c.in[1].at({i[1]}) + c.in[2].at({i[1]});
  });
}

// Computes the term that is added to the score of a key: the bias of its position relative to the query, or -infinity
// if the query may not attend to it. Positions are cells of a grid, which are shifted before the grid is divided into
// windows.
struct Places {
  explicit Places(const Call& c) : call(c) {
    const int64_t t = c.in[0].dim(1);
    const int64_t window = c.attrs.integer("window", t);
    const auto square = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(t))));
    height = c.attrs.integer("height", c.attrs.has("window") ? square : 1);
    width = t / height;
    rows = std::min(window, height);
    columns = std::min(window, width);
  }

  double operator()(int64_t head, int64_t query, int64_t key) const {
    const int64_t shift = call.attrs.integer("shift", 0);
    const auto place = [shift](int64_t at, int64_t size, int64_t side) {
      return side < size ? (at - shift + size) % size : at;
    };
    const auto seen = [&](int64_t q, int64_t k, int64_t size, int64_t side) {
      const int64_t moved_q = place(q, size, side);
      const int64_t moved_k = place(k, size, side);
      // The shift may wrap positions around. Two positions of a window may attend to each other only if they were on
      // the same side before, at the same distance.
      return moved_q / side == moved_k / side && moved_k - moved_q == k - q;
    };
    const bool visible = seen(query / width, key / width, height, rows) &&
                         seen(query % width, key % width, width, columns) &&
                         !(call.attrs.flag("causal", false) && key > query);
    if (!visible) {
      return -INFINITY;
    }
    return call.attrs.flag("relative", false) ? call.in.back().at({head, key / width - query / width + rows - 1,
                                                                   key % width - query % width + columns - 1})
                                              : 0.0;
  }

  const Call& call;
  int64_t height, width, rows, columns;
};

// x is [N, T, D]; there are weights for [q k v] and for the projection. The queries of head h are D / heads columns of
// the first third.
Values attention(const Call& c) {
  const Tensor& x = c.in[0];
  const int64_t t = x.dim(1);
  const int64_t dim = x.dim(2);
  const int64_t heads = c.attrs.integer("heads");
  const int64_t d = dim / heads;
  const bool bias = c.attrs.flag("qkv_bias");
  const Places places(c);
  const Tensor qkv{
      {x.dim(0), t, 3 * dim},
      naive::linear(x.values, c.in[1].values, bias ? c.in[2].values : Values{}, x.dim(0) * t, dim, 3 * dim)};
  const Values mixed = each(x.dims, [&](const Index& i) {
    const int64_t head = i[2] / d;
    Values scores;
    for (int64_t key = 0; key < t; ++key) {
      double score = 0;
      for (int64_t e = head * d; e < (head + 1) * d; ++e) {
        score += qkv.at({i[0], i[1], e}) * qkv.at({i[0], key, dim + e});
      }
      scores.push_back(score / std::sqrt(static_cast<double>(d)) + places(head, i[1], key));
    }
    const double all = log_sum_exp(scores);
    double y = 0;
    for (int64_t key = 0; key < t; ++key) {
      y += std::exp(scores[static_cast<size_t>(key)] - all) * qkv.at({i[0], key, 2 * dim + i[2]});
    }
    return y;
  });
  const size_t proj = bias ? 3 : 2;
  return naive::linear(mixed, c.in[proj].values, c.in[proj + 1].values, x.dim(0) * t, dim, dim);
}

// Returns the mean of a function of logits and label over the positions of each sample. All positions have labels.
template <typename F>
Values mean_of_positions(const Call& c, F of) {
  const Tensor& labels = c.in[1];
  return each(c.out, [&](const Index& i) {
    return mean(each(Index(labels.dims.begin() + 1, labels.dims.end()), [&](Index position) {
      position.insert(position.begin(), i[0]);
      const auto label = static_cast<size_t>(labels.at(position));
      position.push_back(0);
      return of(fiber(c.in[0], position, static_cast<int64_t>(position.size()) - 1), label);
    }));
  });
}

Values cross_entropy(const Call& c) {
  const double smoothing = c.attrs.real("smoothing");
  return mean_of_positions(c, [&](Values z, size_t label) {
    std::ranges::transform(z, z.begin(), [&](double v) { return v * c.attrs.real("scale"); });
    return log_sum_exp(z) - (1 - smoothing) * z[label] - smoothing * mean(z);
  });
}

// Computes a rule such as "nij,njk->nik": the sum over all letters that the result lacks.
Values einsum(const Call& c, const std::string& rule) {
  const size_t comma = rule.find(',');
  const size_t arrow = rule.find("->");
  const std::array<std::string, 2> operands{rule.substr(0, comma), rule.substr(comma + 1, arrow - comma - 1)};
  const std::string result = rule.substr(arrow + 2);
  std::string summed;
  Index sizes;
  for (size_t o = 0; o < 2; ++o) {
    for (size_t d = 0; d < operands[o].size(); ++d) {
      if ((result + summed).find(operands[o][d]) == std::string::npos) {
        summed += operands[o][d];
        sizes.push_back(c.in[o].dims[d]);
      }
    }
  }
  return each(c.out, [&](const Index& i) {
    return sum(each(sizes, [&](const Index& k) {
      const auto element = [&](size_t o) {
        Index at;
        for (const char letter : operands[o]) {
          const size_t d = result.find(letter);
          at.push_back(d == std::string::npos ? k[summed.find(letter)] : i[d]);
        }
        return c.in[o].at(at);
      };
      return element(0) * element(1);
    }));
  });
}

Values deconv(const Call& c) {
  const Tensor& x = c.in[0];
  const naive::Pair k = pair_of(c, "k", 1);
  const naive::Pair stride = pair_of(c, "stride", 1);
  const naive::Pair pad = pair_of(c, "pad", 0);
  return each(c.out, [&](const Index& i) {
    const double bias = c.in.size() > 2 ? c.in[2].at({i[1]}) : 0;
    return bias + sum(each({x.dim(1), k.h, k.w}, [&](const Index& at) {
             // The position in x that the weight at (u, v) multiplies for this element.
             const int64_t h = i[2] + pad.h - at[1];
             const int64_t w = i[3] + pad.w - at[2];
             const bool reached = h >= 0 && w >= 0 && h % stride.h == 0 && w % stride.w == 0 &&
                                  h / stride.h < x.dim(2) && w / stride.w < x.dim(3);
             return reached ? x.at({i[0], at[0], h / stride.h, w / stride.w}) * c.in[1].at({at[0], i[1], at[1], at[2]})
                            : 0.0;
           }));
  });
}

// Returns the classes sorted by descending logit.
std::vector<int64_t> ranking(const Values& logits) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int64_t a, int64_t b) { return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)]; });
  return order;
}

// Returns the mean of f(x, target) over each sample.
Values row_loss(const Call& c, double (*f)(double, double)) {
  const size_t n = c.in[0].values.size() / c.out[0];
  return each(c.out, [&](const Index& i) {
    double loss = 0;
    for (size_t e = n * i[0]; e < n * (i[0] + 1); ++e) {
      loss += f(c.in[0].values[e], c.in[1].values[e]) / static_cast<double>(n);
    }
    return loss;
  });
}

Values along_axis(const Call& c, double (*f)(const Values&)) {
  return each(c.out, [&](Index i) {
    if (!c.attrs.flag("keep", false)) {
      i.insert(i.begin() + axis_of(c), 0);
    }
    return f(fiber(c.in[0], i, axis_of(c)));
  });
}

// Returns the first result of a function for one element of the broadcast operands. A parameter is aligned with the
// last dimensions.
double function_at(const Call& c, const ScalarExpr& function, const Index& i) {
  std::vector<double> inputs;
  for (const Tensor& operand : c.in) {
    const auto skipped = static_cast<std::ptrdiff_t>(i.size() - operand.dims.size());
    inputs.push_back(operand.at(Index(i.begin() + skipped, i.end())));
  }
  return evaluate(function, inputs)[0];
}

Tensor function_of(const Call& c, const std::string& text) {
  const ScalarExpr function = parse_scalar_expr(text).value();
  Tensor made{c.in[0].dims, {}};
  for (const Tensor& operand : c.in) {
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      int64_t& size = made.dims[made.dims.size() - operand.dims.size() + d];
      size = std::max(size, operand.dims[d]);
    }
  }
  made.values = each(made.dims, [&](const Index& i) { return function_at(c, function, i); });
  return made;
}

// Computes a reduction, over a function of the operands if the call has one.
Values reduce(const Call& c, double (*f)(const Values&)) {
  if (!c.attrs.has("of")) {
    return along_axis(c, f);
  }
  Call plain = c;
  plain.in = {function_of(c, c.attrs.text("of"))};
  return along_axis(plain, f);
}

// Computes the first result of `map.sum`. With `dims0`, it is summed over the dimensions that `dims0` lacks or that
// have size 1 in it.
Values map_sum(const Call& c) {
  const Tensor terms = function_of(c, c.attrs.text("y"));
  if (!c.attrs.has("dims0")) {
    return terms.values;
  }
  Tensor sums{c.out, {}};
  sums.values = each(c.out, [](const Index&) { return 0.0; });
  size_t at = 0;
  each(terms.dims, [&](const Index& i) {
    int64_t flat = 0;
    for (size_t d = 0; d < c.out.size(); ++d) {
      flat = flat * c.out[d] + (c.out[d] == 1 ? 0 : i[i.size() - c.out.size() + d]);
    }
    sums.values[static_cast<size_t>(flat)] += terms.values[at++];
    return 0.0;
  });
  return sums.values;
}

Values norm_and_sum(const Call& c) {
  Call norm = c;
  norm.in.erase(norm.in.begin() + 1);
  Values y = batch_norm(norm);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += c.in[1].values[i];
    y[i] = c.attrs.flag("relu", false) ? std::max(y[i], 0.0) : y[i];
  }
  return y;
}

Values concat(const Call& c) {
  return each(c.out, [&](Index i) {
    int64_t& at = i[static_cast<size_t>(axis_of(c))];
    size_t which = 0;
    for (; at >= c.in[which].dim(static_cast<int>(axis_of(c))); ++which) {
      at -= c.in[which].dim(static_cast<int>(axis_of(c)));
    }
    return c.in[which].at(i);
  });
}

using Formula = std::function<Values(const Call&)>;

// Copies the first operand. `move` turns the index of an output element into the index of its source.
template <typename Move>
Formula moved(const Move& move) {
  return [move](const Call& c) {
    return each(c.out, [&](Index i) {
      move(c, i);
      return c.in[0].at(i);
    });
  };
}

// Computes f(call, index, element of the first operand at the index).
template <typename F>
Formula pointwise(const F& f) {
  return [f](const Call& c) { return each(c.out, [&](const Index& i) { return f(c, i, c.in[0].at(i)); }); };
}

const std::map<std::string_view, Formula>& table() {
  static const std::map<std::string_view, Formula> all{
      {"linear",
       [](const Call& c) {
         const int64_t in = c.in[0].dims.back();
         return naive::linear(c.in[0].values, c.in[1].values, bias_of(c, 2),
                              static_cast<int64_t>(c.in[0].values.size()) / in, in, c.out.back());
       }},
      {"einsum", [](const Call& c) { return einsum(c, c.attrs.text("rule")); }},
      {"matmul",
       [](const Call& c) {
         if (c.in[1].dims.size() == 2) {  // a parameter
           return einsum(c, c.out.size() == 2 ? "nk,kj->nj" : "nik,kj->nij");
         }
         constexpr std::array<const char*, 3> kRules{"nij,njk->nik", "naij,najk->naik", "nabij,nabjk->nabik"};
         return einsum(c, kRules.at(c.out.size() - 3));
       }},
      {"conv",
       [](const Call& c) {
         return naive::conv(c.in[0].values, image_of(c.in[0]), c.in[1].values, bias_of(c, 2), c.out[1],
                            window_of(c, c.attrs.integer("groups")));
       }},
      {"dwconv",
       [](const Call& c) {
         return naive::conv(c.in[0].values, image_of(c.in[0]), c.in[1].values, {}, c.out[1], window_of(c, c.out[1]));
       }},
      {"deconv", deconv},
      {"max_pool", [](const Call& c) { return naive::pool(c.in[0].values, image_of(c.in[0]), window_of(c, 1), true); }},
      {"avg_pool",
       [](const Call& c) { return naive::pool(c.in[0].values, image_of(c.in[0]), window_of(c, 1), false); }},
      {"global_avg_pool",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           return mean(each({c.in[0].dim(2), c.in[0].dim(3)}, [&](const Index& p) {
             return c.in[0].at({i[0], i[1], p[0], p[1]});
           }));
         });
       }},
      {"bn.add", norm_and_sum},
      {"bn.prelu",
       [](const Call& c) {
         Values y = batch_norm(c);
         const auto channels = static_cast<size_t>(c.out[1]);
         const size_t places = y.size() / static_cast<size_t>(c.out[0]) / channels;
         for (size_t i = 0; i < y.size(); ++i) {
           y[i] *= y[i] > 0 ? 1 : c.in[5].values[i / places % channels];
         }
         return y;
       }},
      {"bn",
       [](const Call& c) {
         Values y = batch_norm(c);
         if (c.attrs.has("then")) {
           const ScalarExpr function = parse_scalar_expr(c.attrs.text("then")).value();
           for (double& value : y) {
             value = evaluate(function, std::array{value})[0];
           }
         }
         return y;
       }},
      {"layer_norm", [](const Call& c) { return normalized(c, true); }},
      {"rms_norm", [](const Call& c) { return normalized(c, false); }},
      {"group_norm", group_norm},
      {"dropout", dropout},
      {"drop_path", pointwise([](const Call& c, const Index& i, double x) {
         const auto p = static_cast<float>(c.attrs.real("p"));
         return draws(c, i[0]).uniform(0) < p ? 0 : x / (1 - c.attrs.real("p"));
       })},
      {"attention", attention},
      {"clamp", pointwise([](const Call& c, const Index&, double x) {
         return std::clamp(x, c.attrs.real("a"), c.attrs.real("b"));
       })},
      {"power", pointwise([](const Call& c, const Index&, double x) { return std::pow(x, c.attrs.real("exponent")); })},
      {"scale_shift", pointwise([](const Call& c, const Index&, double x) {
         return x * c.attrs.real("scale") + c.attrs.real("shift");
       })},
      {"add", pointwise([](const Call& c, const Index& i, double x) { return x + c.in[1].at(i); })},
      {"sub", pointwise([](const Call& c, const Index& i, double x) { return x - c.in[1].at(i); })},
      {"mul", pointwise([](const Call& c, const Index& i, double x) { return x * c.in[1].at(i); })},
      {"div", pointwise([](const Call& c, const Index& i, double x) { return x / c.in[1].at(i); })},
      {"where", pointwise([](const Call& c, const Index& i, double x) { return c.in[x != 0 ? 1 : 2].at(i); })},
      {"map", [](const Call& c) { return function_of(c, c.attrs.text("y")).values; }},
      {"map.sum", map_sum},
      {"prelu", pointwise([](const Call& c, const Index& i, double x) { return x > 0 ? x : x * c.in[1].at({i[1]}); })},
      {"fill", pointwise([](const Call& c, const Index&, double) { return c.attrs.real("value"); })},
      {"position_embedding", pointwise([](const Call& c, const Index& i, double x) {
         return x + c.in[1].at({i[1], i[2]});
       })},
      {"softmax", pointwise([](const Call& c, const Index& i, double x) {
         return std::exp(x - log_sum_exp(fiber(c.in[0], i, axis_of(c))));
       })},
      {"l2norm",
       pointwise([](const Call& c, const Index& i, double x) { return x / length(fiber(c.in[0], i, axis_of(c))); })},
      {"mean", [](const Call& c) { return reduce(c, mean); }},
      {"sum", [](const Call& c) { return reduce(c, sum); }},
      {"max",
       [](const Call& c) { return along_axis(c, [](const Values& v) { return *std::ranges::max_element(v); }); }},
      {"concat", concat},
      {"transpose", moved([](const Call& c, Index& i) {
         const auto dim = [&](const char* name) { return static_cast<size_t>(place(c.attrs.integer(name), i.size())); };
         std::swap(i[dim("a")], i[dim("b")]);
       })},
      {"slice", moved([](const Call& c, Index& i) { i[static_cast<size_t>(axis_of(c))] += c.attrs.integer("begin"); })},
      {"take", moved([](const Call& c, Index& i) { i.insert(i.begin() + 1, c.attrs.integer("i")); })},
      {"pad",
       [](const Call& c) {
         const int64_t size = c.attrs.integer("size");
         return each(c.out, [&](const Index& i) {
           return naive::at(c.in[0].values, image_of(c.in[0]), i[0], i[1], i[2] - size, i[3] - size);
         });
       }},
      {"class_token",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           return i[1] == 0 ? c.in[1].at({i[2]}) : c.in[0].at({i[0], i[1] - 1, i[2]});
         });
       }},
      {"embed",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           return c.in[1].at({static_cast<int64_t>(c.in[0].at(i)), i.back()});
         });
       }},
      {"embed_bag",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           double sum = 0;
           double count = 0;
           for (int64_t l = 0; l < c.in[0].dims[1]; ++l) {
             const auto row = static_cast<int64_t>(c.in[0].at({i[0], l}));
             if (row != c.attrs.integer("padding")) {
               sum += c.in[1].at({row, i[1]});
               ++count;
             }
           }
           return c.attrs.flag("mean", true) && count > 0 ? sum / count : sum;
         });
       }},
      {"mse", [](const Call& c) { return row_loss(c, [](double x, double t) { return (x - t) * (x - t); }); }},
      {"bce",
       [](const Call& c) {
         return row_loss(
             c, [](double z, double t) { return -t * std::log(sigmoid(z)) - (1 - t) * std::log(sigmoid(-z)); });
       }},
      {"softmax_ce", cross_entropy},
      {"accuracy",
       [](const Call& c) {
         return mean_of_positions(c, [&](const Values& z, size_t label) {
           const auto best = ranking(z);
           const auto end = best.begin() + c.attrs.integer("k");
           return std::find(best.begin(), end, static_cast<int64_t>(label)) != end ? 1.0 : 0.0;
         });
       }},
      {"recall_at",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           const double label = c.in[1].at({i[0]});
           const int64_t dim = c.in[0].dim(1);
           return i[1] < dim ? c.in[0].at(i) : i[1] == dim ? std::floor(label / 65536) : std::fmod(label, 65536);
         });
       }},
      {"verification", [](const Call& c) { return each(c.out, [&](const Index& i) { return c.in[0].at(i); }); }},
      {"state.update",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           return mean(each({c.in[0].dim(0)}, [&](const Index& row) {
             Index at = i;
             at[0] = row[0];
             return c.in[0].at(at);
           }));
         });
       }},
      {"topk",
       [](const Call& c) {
         return each(c.out, [&](const Index& i) {
           return static_cast<double>(ranking(fiber(c.in[0], {i[0], 0}, 1))[static_cast<size_t>(i[1])]);
         });
       }},
  };
  return all;
}

}  // namespace

bool has_formula(std::string_view op) { return functions().contains(op) || table().contains(op); }

std::vector<double> evaluate(const FormulaCall& call) {
  Values y;
  if (const auto function = functions().find(call.op); function != functions().end()) {
    std::ranges::transform(call.in[0].values, std::back_inserter(y), function->second);
  } else {
    y = table().at(call.op)(call);
  }
  if (call.attrs.flag("relu", false)) {
    std::ranges::transform(y, y.begin(), [](double v) { return std::max(v, 0.0); });
  }
  return y;
}

}  // namespace xrun::test
