// Steps of a convolution, for one strip of tiles at a time:
// 1. to_points transforms each 6 x 6 patch of the input to 36 points (Bᵀ d B).
// 2. At each point, a matrix product over channels multiplies the tiles by the weights, which `pack` has transformed.
// 3. to_outputs transforms the 36 points of each tile to 4 x 4 outputs (Aᵀ m A).
// A strip has so few tiles that its points stay in the second-level cache between these steps. The input gradient is
// the same convolution with turned windows; the weight gradient multiplies the points of x by the points of dy.
#include "ops/conv/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/conv/winograd_products.h"
#include "ops/conv/winograd_tiles.h"
#include "ops/make_kernel.h"
#include "ops/parts.h"

namespace xrun::ops {
namespace {

using namespace winograd;  // NOLINT: one idea in three files

constexpr int64_t kWeights = kWindow * kWindow;
// The memory for the points of a strip. It is a part of the second-level cache of a core, which has 2 MiB (1 MiB on Zen
// 4); the rest is for the weights.
constexpr Bytes kTilesBytes = 768 * kKiB;
constexpr Bytes kFloat = sizeof(float);
// Time as a fraction of the time of a direct convolution. The products alone would take a quarter; the rest is for the
// transforms. Measured with 32 to 128 channels on images of 4 to 16 pixels a side.
constexpr double kWork = 0.45;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How the images of a row block are divided into tiles, and the number of tiles in a strip.
struct Tiling {
  int64_t height = 0;
  int64_t width = 0;
  int64_t down = 0;  // tiles along the height of an image
  int64_t across = 0;
  int64_t count = 0;  // number of tiles of all images
  int64_t slots = 0;  // largest number of tiles in a strip
};

Tiling tiling_of(const dnn::ConvShape& s, int64_t rows, Bytes most) {
  Tiling t{.height = s.height, .width = s.width, .down = ceil_div(s.height, kTile), .across = ceil_div(s.width, kTile)};
  t.count = rows * t.down * t.across;
  const Bytes each = kPoints * (s.channels + s.out_channels) * kFloat;
  const int64_t fitting = std::max<int64_t>(1, most / each);
  t.slots = ceil_div(t.count, ceil_div(t.count, fitting));
  return t;
}

// Returns the distance in memory between two points. It is not a multiple of a page, because otherwise all 36 points
// would share a few lines of the first-level cache.
int64_t point_step(int64_t slots, int64_t channels) {
  const int64_t floats = slots * channels;
  return floats % 512 == 0 ? floats + 3 * kGroup : floats;
}

// Divides some of the tiles into strips of nearly equal length, at most `slots` tiles each, and calls body(first tile,
// tiles) for each strip.
template <typename Body>
void for_each_strip(const Tiling& tiling, Range tiles, const Body& body) {
  const int64_t strips = ceil_div(tiles.size(), tiling.slots);
  for (int64_t s = 0; s < strips; ++s) {
    const int64_t first = tiles.begin + tiles.size() * s / strips;
    body(first, tiles.begin + tiles.size() * (s + 1) / strips - first);
  }
}

// Returns the addresses of a square of pixels around a tile. Pixels that are not in the image get the address
// `outside`.
template <int kSide, typename T>
std::array<T*, static_cast<size_t>(kSide* kSide)> pixels_of(const Tiling& tiling, int64_t tile, int64_t pad, T* image,
                                                            int64_t channels, T* outside) {
  const int64_t row = tile / (tiling.down * tiling.across);
  const int64_t y0 = tile / tiling.across % tiling.down * kTile - pad;
  const int64_t x0 = tile % tiling.across * kTile - pad;
  std::array<T*, static_cast<size_t>(kSide * kSide)> pixels;
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t j = 0; j < kSide; ++j) {
      const bool inside = y0 + i >= 0 && y0 + i < tiling.height && x0 + j >= 0 && x0 + j < tiling.width;
      pixels[static_cast<size_t>(i * kSide + j)] =
          inside ? image + ((row * tiling.height + y0 + i) * tiling.width + x0 + j) * channels : outside;
    }
  }
  return pixels;
}

// Transforms some channels of the tiles first .. first + n to points, [36][channels / 16][slots][16].
template <int kSide, Step kStep, typename T>
[[gnu::target(XRUN_AVX512)]] void to_points(const Tiling& tiling, int64_t first, int64_t n, int64_t pad, const T* image,
                                            int64_t channels, Range some, const T* zeros, float* to) {
  const int64_t step = point_step(tiling.slots, channels);
  for (int64_t t = 0; t < n; ++t, to += kGroup) {
    const auto pixels = pixels_of<kSide>(tiling, first + t, pad, image, channels, zeros);
    for (int64_t c = 0; c < some.size(); c += kGroup) {
      transform<kSide, kPatch, kStep>(
          [&](int i, int j) __attribute__((always_inline)) { return load(pixels[i * kSide + j] + some.begin + c); },
          [&](int i, int j, F16 v)
              __attribute__((always_inline)) { store(to + (i * kPatch + j) * step + c * tiling.slots, v); });
    }
  }
}

template <typename T>
[[gnu::target(XRUN_AVX512)]] void to_outputs(const Tiling& tiling, int64_t first, int64_t n, const float* from,
                                             const float* bias, T* image, int64_t channels) {
  const int64_t step = point_step(tiling.slots, channels);
  for (int64_t t = 0; t < n; ++t, from += kGroup) {
    const auto pixels = pixels_of<kTile>(tiling, first + t, 0, image, channels, static_cast<T*>(nullptr));
    for (int64_t c = 0; c < channels; c += kGroup) {
      const F16 start = bias == nullptr ? F16{} : load(bias + c);
      transform<kPatch, kTile, outputs>(
          [&](int i, int j)
              __attribute__((always_inline)) { return load(from + (i * kPatch + j) * step + c * tiling.slots); },
          [&](int i, int j, F16 v) __attribute__((always_inline)) {
            if (T* const pixel = pixels[i * kTile + j]; pixel != nullptr) {
              store(pixel + c, v + start);
            }
          });
    }
  }
}

// Packs the weights [out][in][3][3] as points in panels. With `turned`, packs the weights of the convolution that
// computes the input gradient: in and out are exchanged, and windows are rotated by half a turn. The weights are
// rounded to the type T of the activations.
template <typename T>
[[gnu::target(XRUN_AVX512)]] void pack(const float* weight, int64_t in, int64_t out, bool turned, float* to) {
  const int64_t step_in = turned ? out * kWeights : kWeights;
  const int64_t step_out = turned ? kWeights : in * kWeights;
  for (int64_t o = 0; o < out; o += kGroup) {
    const int64_t panel = o / kPanel * kPanel;
    const int64_t columns = std::min(kPanel, out - panel);
    for (int64_t i = 0; i < in; ++i) {
      float lanes[kWeights][kGroup];
      for (int64_t lane = 0; lane < kGroup; ++lane) {
        const float* const w = weight + i * step_in + (o + lane) * step_out;
        for (int64_t at = 0; at < kWeights; ++at) {
          lanes[turned ? kWeights - 1 - at : at][lane] = w[at];
        }
      }
      float* const target = to + panel * in + i * columns + (o - panel);
      transform<kWindow, kPatch, weight_points>(
          [&](int y, int x) __attribute__((always_inline)) { return rounded_to<T>(load(lanes[y * kWindow + x])); },
          [&](int y, int x, F16 v) __attribute__((always_inline)) { store(target + (y * kPatch + x) * in * out, v); });
    }
  }
}

// Transforms the points [36][out][in] of the weight gradient and adds them to `to` [out][in][3][3].
[[gnu::target(XRUN_AVX512)]] void add_weights(const float* points, int64_t in, int64_t out, float* to) {
  for (int64_t at = 0; at < in * out; at += kGroup) {
    float lanes[kWeights][kGroup];
    transform<kPatch, kWindow, weights>(
        [&](int y, int x) __attribute__((always_inline)) { return load(points + (y * kPatch + x) * in * out + at); },
        [&](int y, int x, F16 v) __attribute__((always_inline)) { store(lanes[y * kWindow + x], v); });
    for (int64_t lane = 0; lane < kGroup; ++lane) {
      for (int64_t w = 0; w < kWeights; ++w) {
        to[(at + lane) * kWeights + w] += lanes[w][lane];
      }
    }
  }
}

// Computes y from x, or dx from dy. A part computes some of the tiles.
template <typename T>
class Winograd final : public Kernel {
 public:
  // `shape` is the shape of the convolution that is computed; for dx, this is the convolution whose input is dy.
  Winograd(const KernelSpec& spec, const dnn::ConvShape& shape, bool turned)
      : shape_(shape), tiling_(tiling_of(shape, spec.rows, kTilesBytes)), turned_(turned) {}

  Bytes scratch_bytes() const override { return zeros_bytes() + (inputs() + outputs()) * kFloat; }
  double work() const override { return kWork; }
  int64_t parts() const override { return tiling_.count; }
  Bytes prepared_bytes(int input) const override {
    return input == 1 ? kPoints * shape_.channels * shape_.out_channels * kFloat : 0;
  }

  Status prepare(int /*input*/, const TensorView& plain, std::byte* prepared, std::byte* /*scratch*/) const override {
    pack<T>(plain.as<float>(), shape_.channels, shape_.out_channels, turned_, reinterpret_cast<float*>(prepared));
    return {};
  }

  Status run(const KernelCall& call) const override {
    std::memset(call.scratch, 0, static_cast<size_t>(zeros_bytes()));
    auto* const from = reinterpret_cast<float*>(call.scratch + zeros_bytes());
    float* const to = from + inputs();
    const int64_t in = shape_.channels;
    const int64_t out = shape_.out_channels;
    for_each_strip(tiling_, part_of(call, tiling_.count), [&](int64_t first, int64_t n) {
      to_points<kPatch, input_points>(tiling_, first, n, 1, static_cast<const T*>(call.inputs[0].as<T>()), in,
                                      Range{0, in}, reinterpret_cast<const T*>(call.scratch), from);
      for (int64_t p = 0; p < kPoints; ++p) {
        apply(from + p * point_step(tiling_.slots, in), call.inputs[1].as<float>() + p * in * out,
              to + p * point_step(tiling_.slots, out), n, tiling_.slots, in, out);
      }
      to_outputs(tiling_, first, n, to, shape_.bias ? call.inputs[2].as<float>() : nullptr, call.outputs[0].as<T>(),
                 out);
    });
    return {};
  }

 private:
  Bytes zeros_bytes() const { return align_up(shape_.channels * static_cast<Bytes>(sizeof(T))); }
  int64_t inputs() const { return kPoints * point_step(tiling_.slots, shape_.channels); }
  int64_t outputs() const { return kPoints * point_step(tiling_.slots, shape_.out_channels); }

  dnn::ConvShape shape_;
  Tiling tiling_;
  bool turned_;
};

// Computes dw from x and dy. A part computes some of the outputs, in groups of sixteen, and transforms all channels of
// x.
template <typename T>
class WinogradDw final : public Kernel {
 public:
  WinogradDw(const KernelSpec& spec, const dnn::ConvShape& shape)
      : shape_(shape),
        // The sums are read and written once for each strip of tiles, so strips are longer if the sums are large.
        tiling_(tiling_of(shape, spec.rows, std::max(kTilesBytes, sums() * kFloat))) {}

  Bytes scratch_bytes() const override { return zeros_bytes() + (sums() + inputs() + outputs()) * kFloat; }
  double work() const override { return kWork; }
  int64_t parts() const override { return shape_.out_channels / kGroup; }

  Status run(const KernelCall& call) const override {
    const int64_t in = shape_.channels;
    const Range some = part_of(call, shape_.out_channels, kGroup);
    const int64_t out = some.size();
    std::memset(call.scratch, 0, static_cast<size_t>(zeros_bytes() + kPoints * in * out * kFloat));
    const auto* const zeros = reinterpret_cast<const T*>(call.scratch);
    auto* const sum = reinterpret_cast<float*>(call.scratch + zeros_bytes());
    float* const x = sum + sums();
    float* const dy = x + inputs();
    for_each_strip(tiling_, {0, tiling_.count}, [&](int64_t first, int64_t n) {
      to_points<kPatch, input_points>(tiling_, first, n, 1, static_cast<const T*>(call.inputs[0].as<T>()), in,
                                      Range{0, in}, zeros, x);
      to_points<kTile, output_points>(tiling_, first, n, 0, static_cast<const T*>(call.inputs[1].as<T>()),
                                      shape_.out_channels, some, zeros, dy);
      for (int64_t p = 0; p < kPoints; ++p) {
        add_outer(x + p * point_step(tiling_.slots, in), dy + p * point_step(tiling_.slots, shape_.out_channels),
                  sum + p * in * out, n, tiling_.slots, in, out);
      }
    });
    add_weights(sum, in, out, call.outputs[0].as<float>() + some.begin * in * kWeights);
    return {};
  }

 private:
  Bytes zeros_bytes() const {
    return align_up(std::max(shape_.channels, shape_.out_channels) * static_cast<Bytes>(sizeof(T)));
  }
  int64_t sums() const { return kPoints * shape_.channels * shape_.out_channels; }
  int64_t inputs() const { return kPoints * point_step(tiling_.slots, shape_.channels); }
  int64_t outputs() const { return kPoints * point_step(tiling_.slots, shape_.out_channels); }

  dnn::ConvShape shape_;
  Tiling tiling_;
};

template <template <typename> class K, typename... Args>
std::unique_ptr<Kernel> make_for(const KernelSpec& spec, Args... args) {
  return with_type(spec.inputs[0].dtype, [&](auto number) -> std::unique_ptr<Kernel> {
    return std::make_unique<K<decltype(number)>>(spec, args...);
  });
}

}  // namespace

bool takes_winograd(const KernelSpec& spec, const dnn::ConvShape& s) {
  // With fewer channels, the transforms cost more than they save.
  constexpr int64_t kFewest = 32;
  const bool possible = spec.isa >= Isa::kAvx512 && s.dtype == DType::kF32 && s.kernel == Extents{kWindow, kWindow} &&
                        s.stride == Extents{1, 1} && s.pad == Extents{1, 1} && s.dilation == Extents{1, 1} &&
                        s.groups == 1 && s.channels % kGroup == 0 && s.out_channels % kGroup == 0 &&
                        s.channels >= kFewest && s.out_channels >= kFewest;
  const int64_t pixels = spec.rows * s.height * s.width;
  if (!possible || !spec.outputs[0].has_batch()) {
    // Each row block has to clear, write and transform four times as many sums as a direct convolution, so it must have
    // enough pixels.
    constexpr int64_t kFewestPixels = 256;
    return possible && pixels >= kFewestPixels;
  }
  // Each strip of tiles reads four times the weights of a direct convolution, so a strip that is not the whole block
  // must have enough tiles. The least number was measured in tests/ops/kernels_bench.cpp (docs/decisions/0008).
  constexpr int64_t kFewestTiles = 5;
  const Tiling tiling = tiling_of(s, spec.rows, kTilesBytes);
  return tiling.slots == tiling.count || pixels * tiling.slots >= kFewestTiles * kTile * kTile * tiling.count;
}

std::unique_ptr<Kernel> make_winograd(const KernelSpec& spec, const dnn::ConvShape& shape) {
  return make_for<Winograd>(spec, shape, false);
}

std::unique_ptr<Kernel> make_winograd_dx(const KernelSpec& spec, const dnn::ConvShape& shape) {
  dnn::ConvShape turned = shape;
  std::swap(turned.channels, turned.out_channels);
  return make_for<Winograd>(spec, turned, true);
}

std::unique_ptr<Kernel> make_winograd_dw(const KernelSpec& spec, const dnn::ConvShape& shape) {
  return make_for<WinogradDw>(spec, shape);
}

}  // namespace xrun::ops
