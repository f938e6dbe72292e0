#include "runtime/data/augment/transform.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

#include "tests/runtime/data/augment/torchvision_results.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using namespace testing;

// A random u8 picture [c, h, w].
struct Sample {
  std::vector<std::byte> bytes;
  std::array<int64_t, 3> shape;

  Sample(int64_t c, int64_t h, int64_t w, uint64_t seed = 1) : bytes(static_cast<size_t>(c * h * w)), shape{c, h, w} {
    const RandomStream stream(seed, 0);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(stream.bits(i));
    }
  }
  int at(int64_t c, int64_t y, int64_t x) const {
    return std::to_integer<int>(bytes[static_cast<size_t>((c * shape[1] + y) * shape[2] + x)]);
  }
};

Transform compiled(std::vector<CallSpec> stages, const Sample& sample, TensorType target) {
  const DataBinding binding{.target = "image", .field = "pixels", .stages = std::move(stages)};
  const Field field{"pixels",
                    {.dtype = DType::kU8, .dims = {kBatch, sample.shape[0], sample.shape[1], sample.shape[2]}}};
  auto made = Transform::compile(binding, field, target);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(made).value();
}

std::vector<float> run(const Transform& transform, const Sample& sample, const DrawKey& key) {
  AugmentScratch scratch;
  scratch.source.set_view(DType::kU8, sample.shape, sample.bytes);
  std::vector<float> out(static_cast<size_t>(transform.row_bytes()) / sizeof(float), -1);
  const Status done = transform.run(scratch, key, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_TRUE(done.ok()) << done.error().message;
  return out;
}

std::vector<float> run(std::vector<CallSpec> stages, const Sample& sample, TensorType target, const DrawKey& key = {}) {
  return run(compiled(std::move(stages), sample, std::move(target)), sample, key);
}

const CallSpec kScale{"scale", {{"k", 1.0 / 255}}, {}};
const CallSpec kNoAffine{"random_affine", {{"rotate", 0.0}, {"scale", 0.0}, {"shear", 0.0}, {"shift", 0.0}}, {}};
const CallSpec kAffine{"random_affine", {{"rotate", 0.3}, {"scale", 0.2}, {"shear", 0.2}, {"shift", 0.1}}, {}};

TEST(Augment, PicturesAreStoredChannelsLast) {
  const Sample sample(3, 5, 7);
  const auto out = run({}, sample, picture_type(3, 5, 7));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < 5; ++y) {
      for (int64_t x = 0; x < 7; ++x) {
        EXPECT_EQ(out[static_cast<size_t>((y * 7 + x) * 3 + c)], sample.at(c, y, x));
      }
    }
  }
}

TEST(Augment, StagesWithNeutralArgumentsChangeNothing) {
  for (const auto& [h, w] : {std::pair{32, 32}, std::pair{7, 13}, std::pair{1, 1}, std::pair{40, 9}}) {
    const Sample sample(2, h, w);
    const auto plain = run({kScale}, sample, picture_type(2, h, w));
    const std::vector<CallSpec> neutral{kScale,
                                        kNoAffine,
                                        {"random_stroke", {{"w", 0.0}}, {}},
                                        {"random_blur", {{"p", 0.0}}, {}},
                                        {"random_noise", {{"sigma", 0.0}}, {}}};
    const auto out = run(neutral, sample, picture_type(2, h, w), {3, 1, 2, true});
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_NEAR(out[i], plain[i], 1e-5) << h << " x " << w << ", element " << i;
    }
  }
}

TEST(Augment, RandomStagesDoNothingOutsideTraining) {
  const Sample sample(1, 32, 32);
  std::vector<CallSpec> stages = glyph_binding().stages;
  const auto out = run(stages, sample, picture_type(1, 32, 32), {3, 1, 2, false});
  EXPECT_EQ(out, run({kScale}, sample, picture_type(1, 32, 32)));
}

TEST(Augment, DrawsDependOnSeedEpochAndSampleOnly) {
  const Sample sample(1, 32, 32);
  const auto transform = compiled(glyph_binding().stages, sample, picture_type(1, 32, 32));
  const DrawKey key{5, 6, 7, true};
  const auto first = run(transform, sample, key);
  // The bytes must not depend on scratch memory that was used for other samples and sizes.
  AugmentScratch used;
  const Sample other(1, 32, 32, 9);
  std::vector<float> out(1024);
  for (uint64_t s = 0; s < 5; ++s) {
    used.source.set_view(DType::kU8, other.shape, other.bytes);
    ASSERT_TRUE(transform.run(used, {1, 2, s, true}, reinterpret_cast<std::byte*>(out.data())).ok());
  }
  used.source.set_view(DType::kU8, sample.shape, sample.bytes);
  ASSERT_TRUE(transform.run(used, key, reinterpret_cast<std::byte*>(out.data())).ok());
  EXPECT_EQ(out, first);
  EXPECT_NE(run(transform, sample, {4, 6, 7, true}), first);
  EXPECT_NE(run(transform, sample, {5, 5, 7, true}), first);
  EXPECT_NE(run(transform, sample, {5, 6, 8, true}), first);
}

// Compares the warp with a plain bilinear lookup in double precision.
TEST(Augment, AffineFollowsItsDefinition) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const int h = 11 + static_cast<int>(seed), w = 32;
    const Sample sample(1, h, w, seed);
    const auto out = run({kScale, kAffine}, sample, picture_type(1, h, w), {seed, 1, 2, true});
    const RandomStream stream(seed, 1, 2, 1);
    const auto within = [&](uint64_t i, double reach) { return (2.0 * stream.uniform(i) - 1) * reach; };
    const double angle = within(0, 0.3), sx = 1 + within(1, 0.2), sy = 1 + within(2, 0.2), shear = within(3, 0.2);
    const double tx = within(4, 0.1) * w, ty = within(5, 0.1) * h;
    // A = R · [1 shear; 0 1] · diag(sx, sy)
    const double c = std::cos(angle), s = std::sin(angle);
    const double a00 = c * sx, a01 = (c * shear - s) * sy, a10 = s * sx, a11 = (s * shear + c) * sy;
    const double det = a00 * a11 - a01 * a10;
    const auto pixel = [&](int y, int x) {
      return y < 0 || y >= h || x < 0 || x >= w ? 0.0 : sample.at(0, y, x) / 255.0;
    };
    for (int y = 0; y < h; ++y) {
      for (int x = 0; x < w; ++x) {
        const double px = x - (w - 1) / 2.0 - tx, py = y - (h - 1) / 2.0 - ty;
        const double qx = (a11 * px - a01 * py) / det + (w - 1) / 2.0;
        const double qy = (-a10 * px + a00 * py) / det + (h - 1) / 2.0;
        const int x0 = static_cast<int>(std::floor(qx)), y0 = static_cast<int>(std::floor(qy));
        const double fx = qx - x0, fy = qy - y0;
        const double want = (1 - fy) * ((1 - fx) * pixel(y0, x0) + fx * pixel(y0, x0 + 1)) +
                            fy * ((1 - fx) * pixel(y0 + 1, x0) + fx * pixel(y0 + 1, x0 + 1));
        ASSERT_NEAR(out[static_cast<size_t>(y * w + x)], want, 1e-4) << y << ", " << x;
      }
    }
  }
}

TEST(Augment, StrokeAndBlurFollowTheirDefinitions) {
  const int h = 9, w = 14;
  const Sample sample(1, h, w);
  int thicker = 0, thinner = 0, blurred = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const DrawKey key{seed, 0, 0, true};
    const auto stroked = run({kScale, {"random_stroke", {{"w", 0.8}}, {}}}, sample, picture_type(1, h, w), key);
    const auto blur = run({kScale, {"random_blur", {{"p", 0.5}}, {}}}, sample, picture_type(1, h, w), key);
    const RandomStream stream(seed, 0, 0, 1);
    const double u = stream.uniform(0, -0.8f, 0.8f);
    const double weight = stream.uniform(0) < 0.5f ? stream.uniform(1) : 0;
    (u > 0 ? thicker : thinner)++;
    blurred += weight > 0;
    for (int y = 0; y < h; ++y) {
      for (int x = 0; x < w; ++x) {
        double low = 1, high = 0, sum = 0;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx) {
            const double near = sample.at(0, std::clamp(y + dy, 0, h - 1), std::clamp(x + dx, 0, w - 1)) / 255.0;
            low = std::min(low, near);
            high = std::max(high, near);
            sum += near;
          }
        }
        const double here = sample.at(0, y, x) / 255.0;
        const auto i = static_cast<size_t>(y * w + x);
        ASSERT_NEAR(stroked[i], here + std::fabs(u) * ((u > 0 ? high : low) - here), 1e-5);
        ASSERT_NEAR(blur[i], here + weight * (sum / 9 - here), 1e-5);
      }
    }
  }
  EXPECT_GT(thicker, 5);
  EXPECT_GT(thinner, 5);
  EXPECT_GT(blurred, 5);
  EXPECT_LT(blurred, 25);
}

TEST(Augment, NoiseHasTheDeviationAskedForAndStaysInRange) {
  const int side = 64;
  const Sample grey = [] {
    Sample made(1, 64, 64);
    std::ranges::fill(made.bytes, std::byte{128});
    return made;
  }();
  double sum = 0, squares = 0, cubes = 0;
  int64_t n = 0;
  for (uint64_t s = 0; s < 20; ++s) {
    for (const float x :
         run({kScale, {"random_noise", {{"sigma", 0.05}}, {}}}, grey, picture_type(1, side, side), {1, 0, s, true})) {
      const double z = (x - 128.0 / 255) / 0.05;
      sum += z;
      squares += z * z;
      cubes += z * z * z;
      ++n;
    }
  }
  const auto count = static_cast<double>(n);
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
  EXPECT_NEAR(cubes / count, 0, 0.05);
  for (const float x : run({kScale, {"random_noise", {{"sigma", 3.0}}, {}}}, grey, picture_type(1, side, side))) {
    ASSERT_GE(x, 0);
    ASSERT_LE(x, 1);
  }
}

TEST(Augment, ResizeKeepsConstantsMeansAndIdentity) {
  Sample flat(3, 20, 30);
  std::ranges::fill(flat.bytes, std::byte{77});
  for (const float x : run({{"resize", {{"size", int64_t{13}}}, {}}}, flat, picture_type(3, 13, 13))) {
    ASSERT_NEAR(x, 77, 1e-3);
  }
  const Sample sample(1, 24, 24);
  EXPECT_EQ(run({{"resize", {{"size", int64_t{24}}}, {}}}, sample, picture_type(1, 24, 24)),
            run({}, sample, picture_type(1, 24, 24)));
  const auto small = run({{"resize", {{"size", int64_t{6}}}, {}}}, sample, picture_type(1, 6, 6));
  double whole = 0;
  for (const std::byte b : sample.bytes) {
    whole += std::to_integer<int>(b);
  }
  EXPECT_NEAR(std::accumulate(small.begin(), small.end(), 0.0) / 36, whole / (24 * 24), 6) << "shrinking averages";
  // Enlarging by a factor of two interpolates at quarters.
  const auto large = run({{"resize", {{"size", int64_t{48}}}, {}}}, sample, picture_type(1, 48, 48));
  EXPECT_NEAR(large[0], sample.at(0, 0, 0), 1e-3);
  const double want = 0.75 * (0.75 * sample.at(0, 0, 0) + 0.25 * sample.at(0, 0, 1)) +
                      0.25 * (0.75 * sample.at(0, 1, 0) + 0.25 * sample.at(0, 1, 1));
  EXPECT_NEAR(large[48 + 1], want, 1e-3);
}

TEST(Augment, CropsAreSquaresOfThePicture) {
  const Sample sample(1, 10, 12);
  const auto middle = run({{"center_crop", {{"size", int64_t{8}}}, {}}}, sample, picture_type(1, 8, 8));
  EXPECT_EQ(middle[0], sample.at(0, 1, 2));
  EXPECT_EQ(middle[63], sample.at(0, 8, 9));
  const CallSpec random{"random_crop", {{"size", int64_t{10}}, {"pad", int64_t{2}}}, {}};
  EXPECT_EQ(run({random}, sample, picture_type(1, 10, 10), {1, 0, 0, false})[0], sample.at(0, 0, 1));
  std::set<std::pair<uint64_t, uint64_t>> places;
  for (uint64_t s = 0; s < 300; ++s) {
    const auto out = run({random}, sample, picture_type(1, 10, 10), {1, 0, s, true});
    const RandomStream stream(1, 0, s, 0);
    const auto top = static_cast<int>(stream.below(0, 5)) - 2, left = static_cast<int>(stream.below(1, 7)) - 2;
    places.emplace(stream.below(0, 5), stream.below(1, 7));
    for (int y = 0; y < 10; ++y) {
      for (int x = 0; x < 10; ++x) {
        const bool inside = y + top >= 0 && y + top < 10 && x + left >= 0 && x + left < 12;
        ASSERT_EQ(out[static_cast<size_t>(y * 10 + x)], inside ? sample.at(0, y + top, x + left) : 0);
      }
    }
  }
  EXPECT_EQ(places.size(), 35u) << "every place is drawn";
}

// torchvision computes int(round((height - size) / 2.0)), and Python rounds halves to even.
TEST(Augment, CropsInTheMiddleRoundHalvesToEven) {
  for (int64_t height = 5; height <= 14; ++height) {
    for (int64_t width = 5; width <= 14; ++width) {
      const Sample sample(1, height, width);
      const auto top = [](int64_t side, int64_t size) {
        return static_cast<int64_t>(std::nearbyint(static_cast<double>(side - size) / 2));
      };
      const auto first = [&](int64_t size) { return sample.at(0, top(height, size), top(width, size)); };
      const CallSpec centre{"center_crop", {{"size", int64_t{5}}}, {}};
      EXPECT_EQ(run({centre}, sample, picture_type(1, 5, 5))[0], first(5)) << height << " x " << width;
      // Outside training, a random crop is the middle of the picture, whatever the padding.
      for (const int64_t pad : {0, 1, 2}) {
        const CallSpec random{"random_crop", {{"size", int64_t{5}}, {"pad", pad}}, {}};
        EXPECT_EQ(run({random}, sample, picture_type(1, 5, 5), {1, 0, 0, false})[0], first(5)) << pad;
      }
      // The largest square is used. It is not resized if it already has the requested size.
      const int64_t side = std::min(height, width);
      const CallSpec square{"random_resized_crop", {{"size", side}}, {}};
      EXPECT_EQ(run({square}, sample, picture_type(1, side, side), {1, 0, 0, false})[0], first(side));
    }
  }
  // Padding makes the picture large enough. torchvision puts the smaller half of the padding first.
  const Sample small(1, 4, 4);
  const CallSpec padded{"random_crop", {{"size", int64_t{7}}, {"pad", int64_t{3}}}, {}};
  EXPECT_EQ(run({padded}, small, picture_type(1, 7, 7), {1, 0, 0, false})[7 + 1], small.at(0, 0, 0));
}

TEST(Augment, ResizedCropsAreRectanglesOfThePictureOfEachSize) {
  const Sample sample(1, 20, 30);
  const CallSpec stage{"random_resized_crop", {{"size", int64_t{8}}, {"area", std::vector<double>{0.2}}}, {}};
  // Outside training, the middle square is used.
  const CallSpec square{"center_crop", {{"size", int64_t{20}}}, {}};
  const CallSpec resize{"resize", {{"size", int64_t{8}}}, {}};
  EXPECT_EQ(run({stage}, sample, picture_type(1, 8, 8), {1, 0, 0, false}),
            run({square, resize}, sample, picture_type(1, 8, 8)));
  std::set<double> areas;
  for (uint64_t s = 0; s < 200; ++s) {
    const RandomStream stream(1, 0, s, 0);
    // Computes the rectangle by its definition, and its resized pixels in another way: a linear ramp stays a linear
    // ramp.
    int64_t height = 20, width = 20;
    for (uint64_t i = 0; i < 10; ++i) {
      const double area = 600 * (0.2 + 0.8 * static_cast<double>(stream.uniform(4 * i)));
      const double ratio = std::pow(4.0 / 3, 2.0 * static_cast<double>(stream.uniform(4 * i + 1)) - 1);
      const auto w = std::lround(std::sqrt(area * ratio)), h = std::lround(std::sqrt(area / ratio));
      if (w <= 30 && h <= 20) {
        width = w;
        height = h;
        break;
      }
    }
    areas.insert(static_cast<double>(width * height));
    Sample ramp(1, 20, 30);
    for (size_t p = 0; p < ramp.bytes.size(); ++p) {
      ramp.bytes[p] = static_cast<std::byte>(4 * (p % 30) + p / 30);
    }
    const auto out = run({stage}, ramp, picture_type(1, 8, 8), {1, 0, s, true});
    if (width >= 8 && height >= 8) {
      // The mean step between inner pixels, which the edges do not affect: 4 per column and 1 per row, times the size
      // over 8.
      const auto w = static_cast<double>(width), h = static_cast<double>(height);
      EXPECT_NEAR((out[8 * 3 + 6] - out[8 * 3 + 1]) / 5, 4 * w / 8, 0.03 * w) << s;
      EXPECT_NEAR((out[8 * 6 + 3] - out[8 * 1 + 3]) / 5, h / 8, 0.01 * h) << s;
    }
  }
  EXPECT_GT(areas.size(), 40U);
  EXPECT_LT(*areas.begin(), 200);
  EXPECT_GT(*areas.rbegin(), 400);
}

TEST(Augment, ColorJitterFollowsItsDefinition) {
  for (const int64_t channels : {1, 3}) {
    const Sample sample(channels, 5, 7);
    const CallSpec stage{"color_jitter", {{"brightness", 0.4}, {"contrast", 0.3}, {"saturation", 0.5}}, {}};
    EXPECT_EQ(run({stage}, sample, picture_type(channels, 5, 7), {1, 0, 2, false}),
              run({}, sample, picture_type(channels, 5, 7)));
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const RandomStream stream(seed, 0, 2, 0);
      const auto factor = [&](uint64_t i, double reach) {
        return 1 + (2 * static_cast<double>(stream.uniform(i)) - 1) * reach;
      };
      const double b = factor(0, 0.4), k = factor(1, 0.3), s = factor(2, 0.5);
      const auto grey = [&](const auto& at) {
        return channels == 3 ? 0.299 * at(0) + 0.587 * at(1) + 0.114 * at(2) : at(0);
      };
      double mean = 0;
      for (int64_t p = 0; p < 35; ++p) {
        mean += b * grey([&](int64_t c) { return static_cast<double>(sample.at(c, p / 7, p % 7)); }) / 35;
      }
      const auto out = run({stage}, sample, picture_type(channels, 5, 7), {seed, 0, 2, true});
      for (int64_t p = 0; p < 35; ++p) {
        const auto lit = [&](int64_t c) { return mean + k * (b * sample.at(c, p / 7, p % 7) - mean); };
        for (int64_t c = 0; c < channels; ++c) {
          const double want = channels == 3 ? grey(lit) + s * (lit(c) - grey(lit)) : lit(c);
          ASSERT_NEAR(out[static_cast<size_t>(p * channels + c)], want, 1e-3) << seed;
        }
      }
    }
  }
}

// Compares a stage without random arguments with a line of results of torchvision. The stage gets the pixels as u8.
void expect_torchvision(const CallSpec& stage, std::istream& line, float tolerance) {
  Sample sample(1, kResultHeight, kResultWidth);
  for (size_t p = 0; p < sample.bytes.size(); ++p) {
    sample.bytes[p] =
        static_cast<std::byte>(result_pixel(0, static_cast<int>(p) / kResultWidth, static_cast<int>(p) % kResultWidth));
  }
  for (const float pixel : run({stage}, sample, picture_type(1, kResultHeight, kResultWidth))) {
    float expected = -1;
    ASSERT_TRUE(line >> expected);
    ASSERT_NEAR(pixel, expected, tolerance);
  }
}

TEST(Augment, BlurAndAffineHaveTheResultsOfTorchvision) {
  const auto blurs = results_of("blur");
  ASSERT_EQ(blurs.size(), 3U);
  for (const std::string& text : blurs) {
    std::istringstream line(text);
    int64_t kernel = 0;
    double sigma = 0;
    line >> kernel >> sigma;
    expect_torchvision({"blur", {{"kernel", kernel}, {"sigma", std::vector<double>{sigma}}, {"p", 1.0}}, {}}, line,
                       1e-3F);
  }
  const auto affines = results_of("affine");
  ASSERT_EQ(affines.size(), 3U);
  for (const std::string& text : affines) {
    std::istringstream line(text);
    double degrees = 0, scale = 0, x = 0, y = 0;
    line >> degrees >> scale >> x >> y;
    expect_torchvision({"affine",
                        {{"degrees", std::vector<double>{degrees, degrees}},
                         {"scale", std::vector<double>{scale, scale}},
                         {"shear", std::vector<double>{x, x, y, y}}},
                        {}},
                       line, 0.02F);
  }
}

TEST(Augment, AffineMovesByWholePixelsAndFillsTheRest) {
  const Sample sample(1, 20, 30);
  const CallSpec stage{
      "affine",
      {{"degrees", std::vector<int64_t>{0}}, {"translate", std::vector<double>{0.2, 0.25}}, {"fill", 33.0}},
      {}};
  std::set<std::pair<int, int>> moves;
  for (uint64_t s = 0; s < 300; ++s) {
    const auto out = run({stage}, sample, picture_type(1, 20, 30), {3, 0, s, true});
    const RandomStream stream(3, 0, s, 0);
    const auto dx = static_cast<int>(std::nearbyint(-6 + 12 * static_cast<double>(stream.uniform(1))));
    const auto dy = static_cast<int>(std::nearbyint(-5 + 10 * static_cast<double>(stream.uniform(2))));
    moves.emplace(dx, dy);
    for (int y = 0; y < 20; ++y) {
      for (int x = 0; x < 30; ++x) {
        const bool inside = y >= dy && y - dy < 20 && x >= dx && x - dx < 30;
        ASSERT_NEAR(out[static_cast<size_t>(y * 30 + x)], inside ? sample.at(0, y - dy, x - dx) : 33, 1e-3)
            << dx << " " << dy;
      }
    }
  }
  EXPECT_GT(moves.size(), 90U) << "there are 13 x 11";
}

TEST(Augment, BlurHasTheProbabilityAskedFor) {
  const Sample sample(1, 9, 9);
  const CallSpec stage{"blur", {{"kernel", int64_t{3}}, {"p", 0.3}}, {}};
  const auto sharp = run({}, sample, picture_type(1, 9, 9));
  int blurred = 0;
  for (uint64_t s = 0; s < 2000; ++s) {
    blurred += run({stage}, sample, picture_type(1, 9, 9), {7, 0, s, true}) != sharp;
  }
  EXPECT_NEAR(blurred, 600, 85);  // seed 7; the deviation is 20
  EXPECT_EQ(run({stage}, sample, picture_type(1, 9, 9), {7, 0, 0, false}), sharp);
}

TEST(Augment, StagesOfTorchvisionRejectArgumentsThatDoNotFit) {
  const auto code_of = [](CallSpec stage, int64_t channels = 3, bool rescaled = false) {
    DataBinding binding{.target = "image", .field = "pixels", .stages = {std::move(stage)}};
    if (rescaled) {
      binding.stages.insert(binding.stages.begin(), kScale);
    }
    const Field field{"pixels", {.dtype = DType::kU8, .dims = {kBatch, channels, 8, 8}}};
    const auto made = Transform::compile(binding, field, picture_type(channels, 8, 8));
    return made.ok() ? std::string("ok") : made.error().code;
  };
  const auto rand_augment = [](int64_t ops, int64_t magnitude) {
    return CallSpec{"rand_augment", {{"ops", ops}, {"magnitude", magnitude}}, {}};
  };
  EXPECT_EQ(code_of(rand_augment(2, 9)), "ok");
  EXPECT_EQ(code_of(rand_augment(2, 31)), "XG0413");
  EXPECT_EQ(code_of(rand_augment(0, 9)), "XG0413");
  EXPECT_EQ(code_of(rand_augment(2, 9), 4), "XG0409");
  EXPECT_EQ(code_of(rand_augment(2, 9), 3, true), "XG0409");
  const auto blur = [](int64_t kernel, std::vector<double> sigma) {
    return CallSpec{"blur", {{"kernel", kernel}, {"sigma", std::move(sigma)}, {"p", 1.0}}, {}};
  };
  EXPECT_EQ(code_of(blur(5, {0.1, 2})), "ok");
  EXPECT_EQ(code_of(blur(4, {0.1, 2})), "XG0413");
  EXPECT_EQ(code_of(blur(17, {0.1, 2})), "XG0409");
  EXPECT_EQ(code_of(blur(5, {2, 0.1})), "XG0413");
  EXPECT_EQ(code_of(blur(5, {0, 2})), "XG0413");
  const auto erasing = [](std::string name, std::vector<double> values) {
    return CallSpec{"random_erasing", {{"p", 0.5}, {std::move(name), std::move(values)}}, {}};
  };
  EXPECT_EQ(code_of(erasing("area", {0.1, 0.2})), "ok");
  EXPECT_EQ(code_of(erasing("area", {0.1})), "XG0413");
  EXPECT_EQ(code_of(erasing("area", {0.1, 1.2})), "XG0413");
  EXPECT_EQ(code_of(erasing("value", {1, 2})), "XG0409");
  EXPECT_EQ(code_of(erasing("value", {1, 2, 3})), "ok");
  const auto affine = [](std::string name, std::vector<double> values) {
    return CallSpec{"affine", {{"degrees", std::vector<int64_t>{5}}, {std::move(name), std::move(values)}}, {}};
  };
  EXPECT_EQ(code_of(affine("shear", {5})), "ok");
  EXPECT_EQ(code_of(affine("shear", {-5, 5, -2, 2})), "ok");
  EXPECT_EQ(code_of(affine("shear", {-5, 5, 2})), "XG0413");
  EXPECT_EQ(code_of(affine("shear", {-5, 5, 2, 1})), "XG0413");
  EXPECT_EQ(code_of(affine("translate", {0.2, 0.1})), "ok");
  EXPECT_EQ(code_of(affine("translate", {0.2, 1.1})), "XG0413");
  EXPECT_EQ(code_of(affine("scale", {1.1})), "XG0413");
}

TEST(Augment, FlipSwapsHalfOfTheSamples) {
  const Sample sample(3, 4, 9);
  int flipped = 0;
  for (uint64_t s = 0; s < 400; ++s) {
    const auto out = run({{"random_flip", {}, {}}}, sample, picture_type(3, 4, 9), {1, 0, s, true});
    const bool is =
        out[0] == static_cast<float>(sample.at(0, 0, 8)) && out[2] == static_cast<float>(sample.at(2, 0, 8));
    flipped += is;
    ASSERT_EQ(out[1], static_cast<float>(sample.at(1, 0, is ? 8 : 0)));
  }
  EXPECT_GT(flipped, 150);
  EXPECT_LT(flipped, 250);
}

TEST(Augment, NormalizeTakesOneValueOrOnePerChannel) {
  const Sample sample(3, 2, 2);
  const auto one = run({{"normalize", {{"mean", std::vector<double>{127.5}}, {"std", std::vector<double>{127.5}}}, {}}},
                       sample, picture_type(3, 2, 2));
  EXPECT_NEAR(one[1], (sample.at(1, 0, 0) - 127.5) / 127.5, 1e-5);
  const auto each = run(
      {{"normalize", {{"mean", std::vector<int64_t>{124, 116, 104}}, {"std", std::vector<int64_t>{58, 57, 57}}}, {}}},
      sample, picture_type(3, 2, 2));
  EXPECT_NEAR(each[2], (sample.at(2, 0, 0) - 104) / 57.0, 1e-5);
}

TEST(Augment, Bf16InputsAreRoundedToNearestEven) {
  const Sample sample(1, 4, 4);
  const auto wide = run({kScale}, sample, picture_type(1, 4, 4));
  const auto transform = compiled({kScale}, sample, picture_type(1, 4, 4, DType::kBF16));
  ASSERT_EQ(transform.row_bytes(), 32);
  AugmentScratch scratch;
  scratch.source.set_view(DType::kU8, sample.shape, sample.bytes);
  std::vector<uint16_t> out(16);
  ASSERT_TRUE(transform.run(scratch, {}, reinterpret_cast<std::byte*>(out.data())).ok());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(std::bit_cast<float>(static_cast<uint32_t>(out[i]) << 16), wide[i], wide[i] / 256);
  }
}

TEST(Augment, ARowOfWholeNumbersBecomesClasses) {
  const CallSpec columns{"columns", {{"range", std::vector<int64_t>{1, 4}}}, {}};
  const CallSpec index{"as_index", {{"classes", int64_t{5}}, {"first", int64_t{1}}}, {}};
  const Field table{"f", {.dtype = DType::kF64, .dims = {kBatch, 4}}};
  const TensorType target{.dtype = DType::kI32, .dims = {kBatch, 3}, .classes = 5};
  const auto made = Transform::compile({.target = "text", .field = "f", .stages = {columns, index}}, table, target);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->row_bytes(), 12);
  const auto classes = [&](std::array<double, 4> row) -> Result<std::array<int32_t, 3>> {
    AugmentScratch scratch;
    const std::array<int64_t, 1> shape{4};
    scratch.source.set_view(DType::kF64, shape, std::as_bytes(std::span(row)));
    std::array<int32_t, 3> out{};
    XRUN_TRY(made->run(scratch, {}, reinterpret_cast<std::byte*>(out.data())));
    return out;
  };
  EXPECT_EQ(classes({9, 1, 5, 3}).value(), (std::array<int32_t, 3>{0, 4, 2}));
  EXPECT_EQ(classes({9, 1, 6, 3}).error().code, "XG0402") << "one too many";
  EXPECT_EQ(classes({9, 1, 2.5, 3}).error().code, "XG0402");
  const auto plain = Transform::compile({.target = "text", .field = "f", .stages = {columns}}, table, target);
  EXPECT_EQ(plain.ok() ? "" : plain.error().code, "XG0404") << "numbers are no classes";
}

TEST(Augment, StagesThatDoNotFitAreRejectedByCompile) {
  const auto code = [](std::vector<CallSpec> stages, Field field, TensorType target) {
    const auto made = Transform::compile({.target = "image", .field = "f", .stages = std::move(stages)}, field, target);
    return made.ok() ? std::string() : made.error().code;
  };
  const Field small{"f", {.dtype = DType::kU8, .dims = {kBatch, 1, 28, 28}}};
  const Field file{"f", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true};
  const Field label{"f", {.dtype = DType::kI32, .dims = {kBatch}, .classes = 12}};
  EXPECT_EQ(code({}, small, picture_type(1, 32, 32)), "XG0404");
  EXPECT_EQ(code({{"resize", {{"size", int64_t{32}}}, {}}}, small, picture_type(1, 32, 32)), "");
  EXPECT_EQ(code({{"center_crop", {{"size", int64_t{32}}}, {}}}, small, picture_type(1, 32, 32)), "XG0409");
  EXPECT_EQ(code({}, file, picture_type(1, 32, 32)), "XG0409");
  EXPECT_EQ(code({kScale}, file, picture_type(1, 32, 32)), "XG0409");
  EXPECT_EQ(code({}, label, label_type(12)), "");
  EXPECT_EQ(code({}, label, label_type(20)), "") << "classes that the data lacks are legal";
  EXPECT_EQ(code({}, label, label_type(10)), "") << "SampleRows knows how many there may be";
  // The columns of a table's row are taken without a change.
  const CallSpec columns{"columns", {{"range", std::vector<int64_t>{0, 8}}}, {}};
  const CallSpec column{"column", {{"index", int64_t{3}}}, {}};
  const Field table{"f", {.dtype = DType::kF64, .dims = {kBatch, 64}}};
  const Field floats{"f", {.dtype = DType::kF32, .dims = {kBatch, 64}}};
  const Field bytes{"f", {.dtype = DType::kU8, .dims = {kBatch, 0}}};
  const TensorType eight{.dtype = DType::kF32, .dims = {kBatch, 8}};
  EXPECT_EQ(code({columns, kScale}, table, eight), "");
  EXPECT_EQ(code({kScale, columns}, table, eight), "XG0409");
  EXPECT_EQ(code({columns, columns}, table, eight), "XG0409");
  EXPECT_EQ(code({columns}, floats, eight), "XG0409");
  EXPECT_EQ(code({columns}, bytes, eight), "XG0409");
  EXPECT_EQ(code({column}, floats, {.dtype = DType::kF32, .dims = {kBatch}}), "XG0409");
}

TEST(Augment, AugmentedGlyphsStayNearTheCentre) {
  // A dot in the middle stays near the middle for any draws, because shifts are at most 0.06 of 32 pixels.
  Sample dot(1, 32, 32);
  std::ranges::fill(dot.bytes, std::byte{0});
  for (const int i : {15 * 32 + 15, 15 * 32 + 16, 16 * 32 + 15, 16 * 32 + 16}) {
    dot.bytes[static_cast<size_t>(i)] = std::byte{255};
  }
  for (uint64_t s = 0; s < 200; ++s) {
    const auto out =
        run({kScale, {"random_affine", {{"rotate", 0.1}, {"scale", 0.15}, {"shear", 0.1}, {"shift", 0.06}}, {}}}, dot,
            picture_type(1, 32, 32), {1, 0, s, true});
    double x = 0, y = 0, mass = 0;
    for (int i = 0; i < 1024; ++i) {
      x += double{out[static_cast<size_t>(i)]} * (i % 32);
      y += double{out[static_cast<size_t>(i)]} * (i / 32);
      mass += out[static_cast<size_t>(i)];
    }
    ASSERT_NEAR(x / mass, 15.5, 1.93 + 0.05);
    ASSERT_NEAR(y / mass, 15.5, 1.93 + 0.05);
    ASSERT_NEAR(mass, 4, 1.6);
  }
}

}  // namespace
}  // namespace xrun::runtime
