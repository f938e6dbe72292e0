// Convolutions of ops/gpu: the order of the sum of an element depends neither on the number of images nor on the
// grouping of row blocks.
#include "tests/ops/gpu/kernel_runner.h"
#include "tests/support/ptx/mma_model.h"

namespace xrun::ops::gpu {
namespace {

struct Shape {
  int32_t images, channels, height, width, out;
  int32_t k_h, k_w, stride_h, stride_w, pad_h, pad_w, dilation_h = 1, dilation_w = 1, groups = 1;

  int32_t out_height() const { return (height + 2 * pad_h - dilation_h * (k_h - 1) - 1) / stride_h + 1; }
  int32_t out_width() const { return (width + 2 * pad_w - dilation_w * (k_w - 1) - 1) / stride_w + 1; }
  int32_t in_of_group() const { return channels / groups; }
  int32_t out_of_group() const { return out / groups; }
  int32_t cells() const { return k_h * k_w; }
  int32_t positions() const { return height * width; }
  int32_t out_positions() const { return out_height() * out_width(); }
  size_t x() const { return static_cast<size_t>(images * positions() * channels); }
  size_t y() const { return static_cast<size_t>(images * out_positions() * out); }
  size_t weights() const { return static_cast<size_t>(out * in_of_group() * cells()); }
  Shape with(int32_t some) const {
    Shape part = *this;
    part.images = some;
    return part;
  }
};

// Uneven sizes; groups whose chunks are copied 16 bytes at a time; more output channels than a tile has.
constexpr Shape kUneven{3, 5, 7, 6, 9, 3, 2, 2, 1, 1, 0, 1, 2};
constexpr Shape kGroups{3, 16, 5, 4, 32, 3, 3, 1, 1, 1, 1, 1, 1, 2};
constexpr Shape kWide{2, 3, 4, 3, 70, 1, 1, 1, 1, 0, 0};

enum class Form { kForward, kDx, kDw };
constexpr Form kForms[] = {Form::kForward, Form::kDx, Form::kDw};
std::string name_of(Form form) { return form == Form::kForward ? "conv" : form == Form::kDx ? "conv_dx" : "conv_dw"; }

// The terms of each element of a result, in their order: the places of their factors, or -1 for a factor that is zero.
struct Term {
  int64_t a, b;
};
using Terms = std::vector<Term>;

// Calls visit(place in x or -1, place in y, place in the weights) for an output position and the cells and input
// channels of its window in order.
template <class Visit>
void for_window(const Shape& s, int64_t image, int64_t i, int64_t j, int64_t o, const Visit& visit) {
  const int64_t group = o / s.out_of_group();
  for (int64_t u = 0; u < s.k_h; ++u) {
    for (int64_t v = 0; v < s.k_w; ++v) {
      for (int64_t c = 0; c < s.in_of_group(); ++c) {
        const int64_t y = i * s.stride_h - s.pad_h + u * s.dilation_h, x = j * s.stride_w - s.pad_w + v * s.dilation_w;
        const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
        const int64_t from = ((image * s.height + y) * s.width + x) * s.channels + group * s.in_of_group() + c;
        visit(inside ? from : -1, ((image * s.out_height() + i) * s.out_width() + j) * s.out + o,
              ((o * s.in_of_group() + c) * s.k_h + u) * s.k_w + v);
      }
    }
  }
}
template <class Visit>
void for_positions(const Shape& s, const Visit& visit) {
  for (int64_t n = 0; n < s.images; ++n) {
    for (int64_t i = 0; i < s.out_height(); ++i) {
      for (int64_t j = 0; j < s.out_width(); ++j) {
        visit(n, i, j);
      }
    }
  }
}

std::vector<Terms> terms_of(const Shape& s, Form form) {
  std::vector<Terms> terms(form == Form::kForward ? s.y() : form == Form::kDx ? s.x() : s.weights());
  if (form == Form::kDx) {
    // All cells and output channels of each element, also those from which no position of y reads it.
    for (Terms& all : terms) {
      all.assign(static_cast<size_t>(s.cells() * s.out_of_group()), {-1, -1});
    }
  }
  for_positions(s, [&](int64_t n, int64_t i, int64_t j) {
    for (int64_t o = 0; o < s.out; ++o) {
      for_window(s, n, i, j, o, [&](int64_t x, int64_t y, int64_t w) {
        if (form == Form::kForward) {
          terms[static_cast<size_t>(y)].push_back({x, w});
        } else if (form == Form::kDw) {
          terms[static_cast<size_t>(w)].push_back({x, y});
        } else if (x >= 0) {
          terms[static_cast<size_t>(x)][static_cast<size_t>(w % s.cells() * s.out_of_group() + o % s.out_of_group())] =
              {y, w};
        }
      });
    }
  });
  return terms;
}

struct Operands {
  std::vector<float> x, weight, bias, dy, before;
  explicit Operands(const Shape& s)
      : x(random_floats(s.x(), 1)),
        weight(random_floats(s.weights(), 2)),
        bias(random_floats(static_cast<size_t>(s.out), 3)),
        dy(random_floats(s.y(), 4)),
        before(random_floats(s.weights(), 5)) {}
  const std::vector<float>& a(Form form) const { return form == Form::kDx ? dy : x; }
  const std::vector<float>& b(Form form) const { return form == Form::kDw ? dy : weight; }
};

template <typename T>
std::vector<T> numbers(const std::vector<float>& values) {
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    return rounded(values);
  }
}
constexpr uint32_t blocks_of(int64_t rows, int64_t columns, int64_t groups) {
  return blocks_for(rows, 64) * blocks_for(columns, 64) * static_cast<uint32_t>(groups);
}

// A launch of a kernel; with `packed`, weights are [out, cells, in of a group].
template <typename T>
class Launcher {
 public:
  Launcher(Machine& machine, const ptx::Module* module = nullptr) : machine_(machine), module_(module) {}

  void forward(const Shape& s, uint64_t x, uint64_t weight, uint64_t bias, uint64_t y, bool packed) {
    run("conv", s, {blocks_of(s.images * s.out_positions(), s.out_of_group(), s.groups), 1, 1}, packed ? 1 : 0, x,
        weight, bias, y);
  }
  void dx(const Shape& s, uint64_t dy, uint64_t weight, uint64_t to, bool packed) {
    run("conv_dx", s, {blocks_of(s.images * s.positions(), s.in_of_group(), s.groups), 1, 1}, packed ? 1 : 0, dy,
        weight, to);
  }
  void dw(const Shape& s, uint64_t x, uint64_t dy, uint64_t to, int32_t rows, int64_t stride) {
    const uint32_t parts = stride == 0 ? 1 : blocks_for(s.images, rows);
    launch("conv_dw", {blocks_of(s.out_of_group(), s.in_of_group() * s.cells(), s.groups), parts, 1}, x, dy, to,
           s.images, s.channels, s.height, s.width, s.out, s.out_height(), s.out_width(), s.k_h, s.k_w, s.stride_h,
           s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups, rows, stride);
  }

 private:
  template <class... Addresses>
  void run(const char* kernel, const Shape& s, std::array<uint32_t, 3> blocks, int32_t packed,
           const Addresses&... addresses) {
    launch(kernel, blocks, addresses..., s.images, s.channels, s.height, s.width, s.out, s.out_height(), s.out_width(),
           s.k_h, s.k_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h, s.dilation_w, s.groups, packed);
  }
  template <class... Arguments>
  void launch(const std::string& kernel, std::array<uint32_t, 3> blocks, const Arguments&... arguments) {
    constexpr bool kNarrow = sizeof(T) == 2;
    const std::string name = kernel + (kNarrow ? "_bf16" : "_f32");
    const std::array<uint32_t, 3> threads{kNarrow ? 128U : 256U, 1, 1};
    if (module_ == nullptr) {
      machine_.run("conv", name, blocks, threads, arguments...);
    } else {
      machine_.run(*module_, name, blocks, threads, arguments...);
    }
  }

  Machine& machine_;
  const ptx::Module* module_;
};

std::vector<float> packed_weights(const Shape& s, const std::vector<float>& weight) {
  std::vector<float> packed(weight.size());
  const auto in = static_cast<size_t>(s.in_of_group()), cells = static_cast<size_t>(s.cells());
  for (size_t i = 0; i < weight.size(); ++i) {
    packed[(i / cells / in * cells + i % cells) * in + i / cells % in] = weight[i];
  }
  return packed;
}

// Runs a kernel with `some` images in a launch, and returns the result as bits. Row blocks have `rows` images.
template <typename T>
Raw result_of(const Shape& s, Form form, const Operands& of, Machine machine, int32_t some, int32_t rows,
              bool packed = false) {
  Launcher<T> launch(machine);
  const uint64_t x = machine.add("x", numbers<T>(of.x)), dy = machine.add("dy", numbers<T>(of.dy));
  const uint64_t weight = machine.add("weight", numbers<T>(packed ? packed_weights(s, of.weight) : of.weight));
  const uint64_t bias = machine.add("bias", of.bias);
  const auto elements = form == Form::kForward ? s.y() : s.x();
  const uint64_t out = form == Form::kDw ? machine.add("dw", of.before) : machine.empty<T>("out", elements);
  for (int32_t first = 0; first < s.images; first += some) {
    const Shape part = s.with(std::min(some, s.images - first));
    const auto x_offset = s.with(first).x() * sizeof(T), y_offset = s.with(first).y() * sizeof(T);
    if (form == Form::kForward) {
      launch.forward(part, x + x_offset, weight, bias, out + y_offset, packed);
    } else if (form == Form::kDx) {
      launch.dx(part, dy + y_offset, weight, out + x_offset, packed);
    } else {
      launch.dw(part, x + x_offset, dy + y_offset, out, rows, 0);
    }
  }
  return form == Form::kDw ? raw(machine.read<float>(out, s.weights())) : raw(machine.read<T>(out, elements));
}

constexpr size_t kRun = 1024;  // positions of a sum of a weight gradient

// The result in the order of the kernels. sum(terms) is a sum that begins at zero.
template <typename T, class Sum>
Raw expected_of(const Shape& s, Form form, const Operands& of, int32_t rows, const Sum& sum) {
  std::vector<float> result;
  const auto block = static_cast<size_t>(rows * s.out_positions());
  size_t element = 0;
  for (const Terms& terms : terms_of(s, form)) {
    if (form != Form::kDw) {
      const float value = sum(std::span(terms));
      result.push_back(form == Form::kForward ? value + of.bias[element % static_cast<size_t>(s.out)] : value);
    } else {
      float gradient = of.before[element];
      for (size_t begin = 0; begin < terms.size(); begin += block) {
        const size_t end = std::min(begin + block, terms.size());
        float total = 0;
        for (size_t run = begin; run < end; run += kRun) {
          const float value = sum(std::span(terms).subspan(run, std::min(kRun, end - run)));
          total = run == begin ? value : total + value;
        }
        gradient += total;
      }
      result.push_back(gradient);
    }
    ++element;
  }
  return form == Form::kDw ? raw(result) : raw(numbers<T>(result));
}

template <typename T>
::testing::AssertionResult same(Form form, const Raw& gpu, const Raw& cpu) {
  return form == Form::kDw ? same_bits(values_of<float>(gpu), values_of<float>(cpu))
                           : same_bits(values_of<T>(gpu), values_of<T>(cpu));
}

TEST(GpuConv, F32IsOneChainOfFusedMultiplyAdds) {
  for (const Shape& s : {kUneven, kGroups, kWide}) {
    const Operands of(s);
    for (const Form form : kForms) {
      const auto chain = [&](std::span<const Term> terms) {
        float sum = 0;
        for (const Term& t : terms) {
          sum =
              t.a < 0 ? sum : std::fma(of.a(form)[static_cast<size_t>(t.a)], of.b(form)[static_cast<size_t>(t.b)], sum);
        }
        return sum;
      };
      const Raw expected = expected_of<float>(s, form, of, 2, chain);
      const Target target = kTargets[s.groups == 1 ? 0 : 1];
      EXPECT_TRUE(same<float>(form, result_of<float>(s, form, of, Machine(target), s.images, 2), expected))
          << name_of(form);
    }
  }
}

TEST(GpuConv, Bf16HasTheSumsOfTensorCores) {
  for (const Shape& s : {kUneven, kGroups, kWide}) {
    const Operands of(s);
    for (const Form form : kForms) {
      const auto a = rounded(of.a(form)), b = rounded(of.b(form));
      for (const Target target : kTargets) {
        const auto core = ptx::tensor_core(target.generation);
        double error = 0, size = 0;
        const auto model = [&](std::span<const Term> terms) {
          std::vector<ptx::Term> left, right;
          double exact = 0;
          for (size_t i = 0; i < (terms.size() + 31) / 32 * 32; ++i) {  // zeros after the last term
            const bool exists = i < terms.size() && terms[i].a >= 0;
            const uint16_t x = exists ? a[static_cast<size_t>(terms[i].a)] : uint16_t{0};
            const uint16_t y = exists ? b[static_cast<size_t>(terms[i].b)] : uint16_t{0};
            left.push_back(ptx::term_of_bfloat(x));
            right.push_back(ptx::term_of_bfloat(y));
            exact += static_cast<double>(to_float(Bf16{x})) * static_cast<double>(to_float(Bf16{y}));
          }
          const float sum = ptx::sum_of_products(core, left, right, 0.0F);
          error += (static_cast<double>(sum) - exact) * (static_cast<double>(sum) - exact);
          size += exact * exact;
          return sum;
        };
        const Raw expected = expected_of<uint16_t>(s, form, of, 2, model);
        EXPECT_LT(std::sqrt(error / size), 2e-6) << "the sums of tensor cores are f32, only their results are bf16";
        for (const bool packed : {false, true}) {
          if (!packed || form != Form::kDw) {
            const Machine machine(target, packed ? ptx::Order::kReversed : ptx::Order::kFair);
            EXPECT_TRUE(same<uint16_t>(form, result_of<uint16_t>(s, form, of, machine, s.images, 2, packed), expected))
                << name_of(form) << " packed " << packed;
          }
        }
      }
    }
  }
}

// Small shapes of one tile, in every order of warps; each launch has one row block.
TEST(GpuConv, BitsDependNeitherOnTheOrderOfWarpsNorOnTheGroupingOfImages) {
  const Shape s{5, 8, 3, 2, 8, 2, 2, 1, 2, 1, 1};
  const Operands of(s);
  for (const Form form : kForms) {
    const Raw f32 = result_of<float>(s, form, of, Machine(kTargets[1]), s.images, 2);
    const Raw bf16 = result_of<uint16_t>(s, form, of, Machine(kTargets[1]), s.images, 2);
    for (const ptx::Order order : ptx::kOrders) {
      const bool wide = order == ptx::Order::kGreedy || order == ptx::Order::kThreadLast;
      EXPECT_TRUE(!wide || result_of<float>(s, form, of, Machine(kTargets[1], order), 2, 2) == f32) << name_of(form);
      EXPECT_TRUE(result_of<uint16_t>(s, form, of, Machine(kTargets[1], order), 2, 2) == bf16) << name_of(form);
    }
  }
}

// More positions than one sum of a weight gradient has; row blocks in one launch or as parts that are added later.
TEST(GpuConv, WeightGradientsOfRowBlocksAreAddedInOrder) {
  const Shape s{3, 2, 24, 23, 3, 1, 1, 1, 1, 0, 0};
  const Operands of(s);
  const auto chain = [&](std::span<const Term> terms) {
    float sum = 0;
    for (const Term& t : terms) {
      sum = std::fma(of.x[static_cast<size_t>(t.a)], of.dy[static_cast<size_t>(t.b)], sum);
    }
    return sum;
  };
  const Raw expected = expected_of<float>(s, Form::kDw, of, 2, chain);
  EXPECT_TRUE(same<float>(Form::kDw, result_of<float>(s, Form::kDw, of, Machine(kTargets[0]), s.images, 2), expected));
  const Raw bf16 = result_of<uint16_t>(s, Form::kDw, of, Machine(kTargets[1]), s.images, 2);
  Machine machine(kTargets[1]);
  const uint64_t x = machine.add("x", rounded(of.x)), dy = machine.add("dy", rounded(of.dy));
  const uint64_t dw = machine.add("dw", of.before), parts = machine.empty<float>("parts", 2 * s.weights());
  const auto elements = static_cast<int64_t>(s.weights());
  Launcher<uint16_t>(machine).dw(s, x, dy, parts, 2, elements);
  machine.run_each("column_sums", "add_parts_f32", elements, parts, dw, elements, int64_t{2});
  EXPECT_TRUE(same_bits(machine.read<float>(dw, s.weights()), values_of<float>(bf16)));
}

}  // namespace
}  // namespace xrun::ops::gpu
