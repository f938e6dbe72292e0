#include "runtime/cli/preview/display.h"

#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "ops/simd/simd.h"

namespace xrun::cli {
namespace {

TensorType pictures(int64_t channels, int64_t height, int64_t width, DType dtype = DType::kF32) {
  return {.dtype = dtype, .dims = {kBatch, channels, height, width}};
}

Field u8_field(int64_t channels) { return {"pixels", pictures(channels, 0, 0, DType::kU8)}; }

DataBinding binding(std::vector<CallSpec> stages) {
  return {.target = "image", .field = "pixels", .stages = std::move(stages)};
}

template <typename T>
const std::byte* bytes_of(const std::vector<T>& row) {
  return reinterpret_cast<const std::byte*>(row.data());
}

const CallSpec kScale{"scale", {{"k", 1.0 / 255}}, {}};
const CallSpec kNormalize{
    "normalize",
    {{"mean", std::vector<double>{0.485, 0.456, 0.406}}, {"std", std::vector<double>{0.229, 0.224, 0.225}}},
    {}};

TEST(Display, ScaleAndNormalizeAreInvertedForEachChannel) {
  const RandomStream stream(3, 0);
  std::vector<float> row;
  std::vector<uint8_t> pixels;
  const double mean[] = {0.485, 0.456, 0.406};
  const double std[] = {0.229, 0.224, 0.225};
  for (uint64_t i = 0; i < 4 * 5 * 3; ++i) {
    pixels.push_back(static_cast<uint8_t>(stream.bits(i)));
    row.push_back(static_cast<float>((pixels.back() / 255.0 - mean[i % 3]) / std[i % 3]));
  }
  const Display display(binding({kScale, {"random_flip", {}, {}}, kNormalize}), u8_field(3), pictures(3, 4, 5));
  EXPECT_FALSE(display.is_stretched());
  const ShownPicture shown = display.show(bytes_of(row));
  EXPECT_EQ(shown.width, 5);
  EXPECT_EQ(shown.height, 4);
  EXPECT_EQ(shown.pixels, pixels);
}

TEST(Display, RowsOfBf16AndF64AreShownLikeThoseOfF32) {
  const std::vector<double> wide = {0, 128, 255, 16};
  std::vector<ops::Bf16> narrow;
  for (const double x : wide) {
    narrow.push_back(ops::to_bf16(static_cast<float>(x)));
  }
  const std::vector<uint8_t> grey = {0, 0, 0, 128, 128, 128, 255, 255, 255, 16, 16, 16};
  EXPECT_EQ(Display(binding({}), u8_field(1), pictures(1, 2, 2, DType::kF64)).show(bytes_of(wide)).pixels, grey);
  EXPECT_EQ(Display(binding({}), u8_field(1), pictures(1, 2, 2, DType::kBF16)).show(bytes_of(narrow)).pixels, grey);
}

TEST(Display, ValuesOutsideOfTheRangeAreLimitedAndOthersThanNumbersAreBlack) {
  const std::vector<float> row = {-40, 300, std::numeric_limits<float>::quiet_NaN(),
                                  std::numeric_limits<float>::infinity()};
  const std::vector<uint8_t> shown = {0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(Display(binding({}), u8_field(1), pictures(1, 2, 2)).show(bytes_of(row)).pixels, shown);
}

TEST(Display, PicturesOfAnUnknownRangeAreStretched) {
  const Field numbers{"pixels", pictures(1, 1, 3)};
  const Display display(binding({}), numbers, pictures(1, 1, 3));
  EXPECT_TRUE(display.is_stretched());
  const std::vector<uint8_t> shown = {0, 0, 0, 128, 128, 128, 255, 255, 255};
  EXPECT_EQ(display.show(bytes_of<float>({-1, 0.5F, 2})).pixels, shown);
  EXPECT_EQ(display.show(bytes_of<float>({7, 7, 7})).pixels, std::vector<uint8_t>(9, 0));
  EXPECT_TRUE(Display(binding({{"scale", {{"k", 0.0}}, {}}}), u8_field(1), pictures(1, 1, 3)).is_stretched());
}

}  // namespace
}  // namespace xrun::cli
