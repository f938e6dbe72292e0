// Attention of ops/gpu against a computation in f64, and, for f32, against a computation in the order of the kernels.
#include "ops/attention/window_cells.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int32_t kTile = 64, kPart = 4;  // keys of a tile, and of a thread of an f32 tile

struct Shape {
  int32_t samples, heads, d;
  WindowCells<int32_t> cells;
  bool causal = false, relative = false;

  int32_t tokens() const { return cells.tokens(); }
  int32_t positions() const { return cells.height * cells.width; }
  int32_t units() const { return samples * cells.count() * heads; }
  size_t features() const { return static_cast<size_t>(samples * positions() * heads * d); }
  size_t stats() const { return static_cast<size_t>(units() * 3) * blocks_for(tokens(), 64) * 64; }
  size_t table() const { return static_cast<size_t>(heads * cells.offsets()); }
};
constexpr WindowCells<int32_t> sequence(int32_t t) {
  WindowCells<int32_t> cells;
  cells.width = cells.columns = t;
  return cells;
}
constexpr WindowCells<int32_t> windows() {
  WindowCells<int32_t> cells;
  cells.height = 4;
  cells.width = 6;
  cells.rows = 2;
  cells.columns = 3;
  cells.down = cells.right = 1;
  return cells;
}
// Rows of odd sizes, two tiles of causal queries, shifted windows with trained biases, and two tiles of columns.
constexpr Shape kOdd{1, 2, 20, sequence(11)};
constexpr Shape kCausal{1, 1, 8, sequence(70), true};
constexpr Shape kWindows{2, 1, 3, windows(), false, true};
constexpr Shape kDeep{1, 1, 72, sequence(5)};

struct Operands {
  std::vector<float> qkv, d_o, relative, drelative;
  explicit Operands(const Shape& s)
      : qkv(random_floats(3 * s.features(), 1, -3, 0)),
        d_o(random_floats(s.features(), 2, -3, 0)),
        relative(random_floats(s.table(), 3, -3, 0)),
        drelative(random_floats(s.table(), 4)) {}
};
struct Results {
  std::vector<float> o, dqkv, drelative;
};

float exp_of(float x) { return exp_lanes(broadcast<F16>(x))[0]; }
double exp_of(double x) { return std::exp(x); }

// Attention and its gradients with numbers F in the order of the f32 kernels. Row blocks have `rows` samples.
template <typename F>
class Host {
 public:
  Host(const Shape& s, const Operands& of, int32_t rows)
      : s_(s),
        of_(of),
        o_(s.features()),
        dqkv_(3 * s.features()),
        drelative_(of.drelative.begin(), of.drelative.end()) {
    const auto pairs = static_cast<size_t>(s.heads * s.tokens() * s.tokens());
    for (int32_t first = 0; first < s.samples; first += rows) {
      std::vector<double> sums(pairs);
      for (int32_t n = first; n < std::min(first + rows, s.samples); ++n) {
        for (int32_t w = 0; w < s.cells.count(); ++w) {
          for (int32_t h = 0; h < s.heads; ++h) {
            compute(n, w, h, sums.data() + static_cast<size_t>(h * s.tokens() * s.tokens()));
          }
        }
      }
      for (size_t i = 0; s.relative && i < s.table(); ++i) {
        const auto h = static_cast<int32_t>(i) / s.cells.offsets(),
                   offset = static_cast<int32_t>(i) % s.cells.offsets();
        double total = 0;
        for (int32_t q = 0; q < s.tokens(); ++q) {
          for (int32_t k = 0; k < s.tokens(); ++k) {
            total +=
                s.cells.offset(q, k) == offset ? sums[static_cast<size_t>((h * s.tokens() + q) * s.tokens() + k)] : 0;
          }
        }
        drelative_[i] += static_cast<F>(static_cast<float>(total));
      }
    }
  }
  std::vector<F> o() const { return o_; }
  std::vector<F> dqkv() const { return dqkv_; }
  std::vector<F> drelative() const { return drelative_; }

 private:
  // The first of d elements of a token in the tensor with `parts` parts.
  size_t place(int32_t n, int32_t w, int32_t h, int32_t token, int32_t parts, int32_t part) const {
    const int32_t row = n * s_.positions() + s_.cells.position(w, token);
    return static_cast<size_t>(((row * parts + part) * s_.heads + h) * s_.d);
  }
  F dot(const float* a, const float* b) const {
    F sum = 0;
    for (int32_t e = 0; e < s_.d; ++e) {
      sum = std::fma(static_cast<F>(a[e]), static_cast<F>(b[e]), sum);
    }
    return sum;
  }
  // The sum over the keys of a row in the order of the kernels, from `sum` on: each thread adds four.
  template <class Value>
  static void add_row(F& sum, int32_t first, int32_t end, const Value& value) {
    for (int32_t part = first; part < first + kTile; part += kPart) {
      F own = 0;
      for (int32_t k = part; k < part + kPart; ++k) {
        own += k < end ? value(k) : F{0};
      }
      sum += own;
    }
  }

  void compute(int32_t n, int32_t w, int32_t h, double* pairs) {
    const int32_t t = s_.tokens();
    const F scale = F{1} / std::sqrt(static_cast<F>(s_.d));
    const auto q = [&](int32_t i) { return of_.qkv.data() + place(n, w, h, i, 3, 0); };
    const auto k = [&](int32_t i) { return of_.qkv.data() + place(n, w, h, i, 3, 1); };
    const auto v = [&](int32_t i) { return of_.qkv.data() + place(n, w, h, i, 3, 2); };
    const auto d_o = [&](int32_t i) { return of_.d_o.data() + place(n, w, h, i, 1, 0); };
    std::vector<F> p(static_cast<size_t>(t * t)), ds(p.size());
    for (int32_t i = 0; i < t; ++i) {
      F* const row = p.data() + i * t;
      F top = -INFINITY, sum = 0, along = 0;
      for (int32_t first = 0; first < t; first += kTile) {
        const int32_t end = std::min(first + kTile, t);
        const F before = top;
        for (int32_t j = first; j < end; ++j) {
          const bool seen = s_.cells.region(w, i) == s_.cells.region(w, j) && (!s_.causal || j <= i);
          F score = dot(q(i), k(j)) * scale;
          if (s_.relative) {
            score += static_cast<F>(of_.relative[static_cast<size_t>(h * s_.cells.offsets() + s_.cells.offset(i, j))]);
          }
          row[j] = seen ? score : -INFINITY;
          top = std::max(top, row[j]);
        }
        sum *= top == before ? F{1} : exp_of(before - top);
        add_row(sum, first, end, [&](int32_t j) { return row[j] == -INFINITY ? F{0} : exp_of(row[j] - top); });
      }
      const F inverse = F{1} / sum;
      for (int32_t j = 0; j < t; ++j) {
        row[j] = (row[j] == -INFINITY ? F{0} : exp_of(row[j] - top)) * inverse;
      }
      for (int32_t first = 0; first < t; first += kTile) {
        add_row(along, first, std::min(first + kTile, t), [&](int32_t j) { return row[j] * dot(d_o(i), v(j)); });
      }
      for (int32_t j = 0; j < t; ++j) {
        const F gradient = row[j] * (dot(d_o(i), v(j)) - along);
        pairs[i * t + j] += static_cast<double>(gradient);
        ds[static_cast<size_t>(i * t + j)] = gradient * scale;
      }
    }
    for (int32_t i = 0; i < t; ++i) {
      for (int32_t e = 0; e < s_.d; ++e) {
        const auto at = static_cast<size_t>(e);
        for (int32_t j = 0; j < t; ++j) {
          const auto add = [&](F& sum, F a, float b) { sum = std::fma(a, static_cast<F>(b), sum); };
          const auto ij = static_cast<size_t>(i * t + j), ji = static_cast<size_t>(j * t + i);
          add(o_[place(n, w, h, i, 1, 0) + at], p[ij], v(j)[e]);
          add(dqkv_[place(n, w, h, i, 3, 0) + at], ds[ij], k(j)[e]);
          add(dqkv_[place(n, w, h, i, 3, 1) + at], ds[ji], q(j)[e]);
          add(dqkv_[place(n, w, h, i, 3, 2) + at], p[ji], d_o(j)[e]);
        }
      }
    }
  }

  Shape s_;
  const Operands& of_;
  std::vector<F> o_, dqkv_, drelative_;
};

template <typename T>
std::vector<T> numbers(const std::vector<float>& values) {
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    return rounded(values);
  }
}
template <typename T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> wide;
  for (const T value : values) {
    if constexpr (std::is_same_v<T, float>) {
      wide.push_back(value);
    } else {
      wide.push_back(to_float(Bf16{value}));
    }
  }
  return wide;
}

// Runs all kernels with `some` samples in a launch, in row blocks of `rows` samples. `some` is a multiple of `rows`.
template <typename T>
Results run(const Shape& all, const Operands& of, Machine machine, int32_t some, int32_t rows) {
  const std::string type = sizeof(T) == 2 ? "_bf16" : "_f32";
  const std::array<uint32_t, 3> threads{sizeof(T) == 2 ? 128U : 256U, 1, 1};
  const uint64_t qkv = machine.add("qkv", numbers<T>(of.qkv)), d_o = machine.add("do", numbers<T>(of.d_o));
  const uint64_t relative = all.relative ? machine.add("relative", of.relative) : 0;
  const uint64_t drelative = machine.add("drelative", of.drelative);
  const uint64_t o = machine.empty<T>("o", all.features()), dqkv = machine.empty<T>("dqkv", 3 * all.features());
  for (int32_t first = 0; first < all.samples; first += some) {
    Shape s = all;
    s.samples = std::min(some, all.samples - first);
    const auto from = static_cast<uint64_t>(first * all.positions() * all.heads * all.d) * sizeof(T);
    const auto tiles = blocks_for(s.tokens(), kTile), units = static_cast<uint32_t>(s.units());
    const uint64_t stats = machine.empty<float>("stats", s.stats());
    const auto launch = [&](const std::string& kernel, uint32_t blocks, const auto&... arguments) {
      machine.run("attention", kernel + type, {blocks, 1, 1}, threads, arguments...);
    };
    const auto with_shape = [&](const std::string& kernel, const auto&... addresses) {
      launch(kernel, units * tiles, addresses..., s.heads, s.d, s.cells.height, s.cells.width, s.cells.rows,
             s.cells.columns, s.cells.down, s.cells.right, s.causal ? 1 : 0);
    };
    with_shape("attention", qkv + 3 * from, relative, o + from);
    with_shape("attention_dq", qkv + 3 * from, d_o + from, relative, dqkv + 3 * from, stats);
    with_shape("attention_dkv", qkv + 3 * from, d_o + from, relative, dqkv + 3 * from, stats);
    if (s.relative) {
      const auto blocks = blocks_for(s.samples, rows);
      const uint64_t pairs =
          machine.empty<double>("pairs", blocks * static_cast<size_t>(s.heads * s.tokens() * s.tokens()));
      launch("attention_pairs", blocks * static_cast<uint32_t>(s.heads) * tiles * tiles, qkv + 3 * from, d_o + from,
             relative, stats, pairs, s.heads, s.d, s.cells.height, s.cells.width, s.cells.rows, s.cells.columns,
             s.cells.down, s.cells.right, s.causal ? 1 : 0, s.samples, rows);
      machine.run_each("attention", "attention_relative", static_cast<int64_t>(s.table()), pairs, drelative,
                       static_cast<int64_t>(blocks), s.heads, s.cells.rows, s.cells.columns);
    }
  }
  return {widened(machine.read<T>(o, all.features())), widened(machine.read<T>(dqkv, 3 * all.features())),
          machine.read<float>(drelative, all.table())};
}

// The norm of the difference over the norm of the exact numbers.
double error_of(const std::vector<float>& values, const std::vector<double>& exact) {
  double error = 0, size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += (static_cast<double>(values[i]) - exact[i]) * (static_cast<double>(values[i]) - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

TEST(GpuAttention, F32HasTheBitsOfTheOrderOfItsSums) {
  for (const Shape& s : {kOdd, kCausal, kWindows, kDeep}) {
    const Operands of(s);
    const Host<double> exact(s, of, 1);
    const Results done = run<float>(s, of, Machine(kTargets[s.causal ? 0 : 1]), s.samples, 1);
    EXPECT_LT(error_of(done.o, exact.o()), 1e-6);
    EXPECT_LT(error_of(done.dqkv, exact.dqkv()), 2e-6);
    EXPECT_LT(error_of(done.drelative, exact.drelative()), 1e-6);
    const FlushMode flush;
    const Host<float> expected(s, of, 1);
    EXPECT_TRUE(same_bits(done.o, expected.o()));
    EXPECT_TRUE(same_bits(done.dqkv, expected.dqkv()));
    EXPECT_TRUE(same_bits(done.drelative, expected.drelative()));
  }
}

TEST(GpuAttention, Bf16IsNearTheResultInF64) {
  for (const Shape& s : {kOdd, kCausal, kWindows, kDeep}) {
    Operands of(s);
    of.qkv = widened(rounded(of.qkv));
    of.d_o = widened(rounded(of.d_o));
    const Host<double> exact(s, of, 1);
    for (const Target target : kTargets) {
      const Results done = run<uint16_t>(s, of, Machine(target), s.samples, 1);
      EXPECT_LT(error_of(done.o, exact.o()), 4e-3);
      EXPECT_LT(error_of(done.dqkv, exact.dqkv()), 6e-3);
      EXPECT_LT(error_of(done.drelative, exact.drelative()), 1e-3);
    }
  }
}

void expect_same(const Results& a, const Results& b) {
  EXPECT_TRUE(same_bits(a.o, b.o));
  EXPECT_TRUE(same_bits(a.dqkv, b.dqkv));
  EXPECT_TRUE(same_bits(a.drelative, b.drelative));
}

TEST(GpuAttention, BitsDependNeitherOnTheOrderOfWarpsNorOnTheGroupingOfSamples) {
  const Shape s{2, 1, 8, kWindows.cells, true, true};
  const Operands of(s);
  const Results f32 = run<float>(s, of, Machine(kTargets[1]), 2, 1);
  expect_same(run<float>(s, of, Machine(kTargets[1], ptx::Order::kGreedy), 1, 1), f32);
  const Results bf16 = run<uint16_t>(s, of, Machine(kTargets[1]), 2, 1);
  for (const ptx::Order order : ptx::kOrders) {
    expect_same(run<uint16_t>(s, of, Machine(kTargets[1], order), 1, 1), bf16);
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
