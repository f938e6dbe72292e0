// Stages after `decode` against the same stages on pixels that were decoded as a whole.
#include "runtime/data/augment/decode_stage.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>

#include "runtime/data/augment/transform.h"
#include "tests/runtime/data/data_support.h"
#include "tests/runtime/formats/pictures/jpeg_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;

using Stages = std::vector<CallSpec>;

CallSpec stage(std::string name, Attrs args = {}) { return {std::move(name), std::move(args), {}}; }

Result<std::vector<float>> run(const Stages& stages, const Field& field, std::span<const int64_t> shape,
                               std::span<const std::byte> bytes, const TensorType& target, const DrawKey& key) {
  const DataBinding binding{.target = "x", .field = field.name, .stages = stages};
  XRUN_ASSIGN(const Transform transform, Transform::compile(binding, field, target));
  AugmentScratch scratch;
  scratch.source.set_view(DType::kU8, shape, bytes);
  std::vector<float> out(static_cast<size_t>(transform.row_bytes()) / sizeof(float), -1);
  XRUN_TRY(transform.run(scratch, key, reinterpret_cast<std::byte*>(out.data())));
  return out;
}

// Runs the stages on an encoded file.
Result<std::vector<float>> from_file(const Stages& stages, const std::string& file, const TensorType& target,
                                     const DrawKey& key = {}) {
  const Field field{"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true};
  const std::array<int64_t, 1> shape{static_cast<int64_t>(file.size())};
  return run(stages, field, shape, std::as_bytes(std::span(file)), target, key);
}

// Runs the stages on the pixels of the whole file. `random_flip` stands in the place of `decode`, so that the draws of
// later stages are equal. It keeps bytes, and outside training also their places.
std::vector<float> from_pixels(Stages stages, const std::string& file, int channels, const TensorType& target,
                               const DrawKey& key = {}) {
  std::vector<uint8_t> pixels;
  const auto size = decode_picture(std::as_bytes(std::span(file)), {.channels = channels}, pixels);
  EXPECT_TRUE(size.ok());
  const std::array<int64_t, 3> shape{channels, size->height, size->width};
  std::vector<std::byte> planes(pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t area = pixels.size() / static_cast<size_t>(channels);
    planes[i % static_cast<size_t>(channels) * area + i / static_cast<size_t>(channels)] =
        static_cast<std::byte>(pixels[i]);
  }
  stages[0] = stage("random_flip");
  const Field field{"pixels", {.dtype = DType::kU8, .dims = {kBatch, shape[0], shape[1], shape[2]}}};
  auto made = run(stages, field, shape, planes, target, key);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made.ok() ? *made : std::vector<float>();
}

std::vector<std::string> files_of_every_kind() {
  std::vector<std::string> files;
  for (const char* name : {"rgb8.png", "turned6.png", "420.jpg", "turned5.jpg", "progressive.jpg", "lossy.webp"}) {
    std::ifstream in(std::filesystem::path(XRUN_SOURCE_DIR) / "tests/pictures" / name, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  for (uint64_t seed = 0; seed < 20; ++seed) {
    JpegKind kind = draw_jpeg_kind(seed, 90);
    kind.height += 8;
    kind.width += 8;
    files.push_back(jpeg_file(kind, seed));
  }
  return files;
}

CallSpec decode(int64_t channels) { return stage("decode", {{"channels", channels}}); }

TEST(DecodeStage, StagesThatDecodeAPartGiveTheBitsOfTheWholePicture) {
  const std::vector<std::pair<CallSpec, std::pair<int64_t, int64_t>>> stages{
      {stage("resize", {{"size", int64_t{12}}}), {12, 12}},
      {stage("resize", {{"size", std::vector<int64_t>{9, 30}}, {"filter", "bicubic"}}), {9, 30}},
      {stage("resize", {{"size", std::vector<int64_t>{30, 7}}, {"antialias", false}}), {30, 7}},
      {stage("center_crop", {{"size", int64_t{6}}}), {6, 6}},
      {stage("random_resized_crop", {{"size", int64_t{10}}}), {10, 10}},
      {stage("random_crop", {{"size", int64_t{5}}}), {5, 5}},
      {stage("random_crop", {{"size", int64_t{7}}, {"pad", int64_t{2}}}), {7, 7}}};
  const std::vector<std::string> files = files_of_every_kind();
  for (size_t i = 0; i < files.size(); ++i) {
    for (const auto& [one, sides] : stages) {
      for (const int64_t channels : {1, 3}) {
        for (uint64_t sample = 0; sample < 4; ++sample) {
          // Training flips half of the samples in from_pixels, so only others are compared.
          const DrawKey key{3, 1, sample, one.name.starts_with("random_")};
          if (key.training && RandomStream(3, 1, sample, 0).uniform(0) < 0.5f) {
            continue;
          }
          const TensorType target = picture_type(channels, sides.first, sides.second);
          const auto got = from_file({decode(channels), one}, files[i], target, key);
          ASSERT_TRUE(got.ok()) << got.error().message;
          ASSERT_EQ(*got, from_pixels({decode(channels), one}, files[i], static_cast<int>(channels), target, key))
              << "file " << i << ", " << one.name << ", " << channels << " channels, sample " << sample;
        }
      }
    }
  }
}

// Equal to torchvision's Resize(n) -> CenterCrop(m) for evaluation: the longer side is cut off to a whole number.
TEST(DecodeStage, TheShorterSideGetsTheLengthAndTheRatioStays) {
  const AugmentStep step{.shorter = 256};
  EXPECT_EQ(size_after(step, 348, 464), std::pair(int64_t{256}, int64_t{341}));
  EXPECT_EQ(size_after(step, 500, 375), std::pair(int64_t{341}, int64_t{256}));
  EXPECT_EQ(size_after(step, 100, 100), std::pair(int64_t{256}, int64_t{256}));
  EXPECT_EQ(size_after(step, 1, 3), std::pair(int64_t{256}, int64_t{768}));
  const std::string file = jpeg_file({.height = 40, .width = 60}, 1);
  const TensorType target = picture_type(3, 16, 16);
  const DrawKey key{.training = false};
  const auto got =
      from_file({decode(3), stage("resize", {{"shorter", int64_t{20}}}), stage("center_crop", {{"size", int64_t{16}}})},
                file, target, key);
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(*got, from_pixels({decode(3), stage("resize", {{"size", std::vector<int64_t>{20, 30}}}),
                               stage("center_crop", {{"size", int64_t{16}}})},
                              file, 3, target, key));
}

TEST(DecodeStage, FastDecodingIsCloseAndLeavesLargeResultsAsTheyAre) {
  double differences = 0;
  int64_t numbers = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JpegKind kind = draw_jpeg_kind(seed, 100);
    kind.height += 60;
    kind.width += 60;
    const std::string file = jpeg_file(kind, seed);
    const CallSpec fast = stage("decode", {{"fast", true}});
    for (const int64_t size : {14, 59}) {  // at most a quarter of each side, or more than a quarter
      const bool shrinks = size == 14;
      for (const Stages& stages : {Stages{stage("resize", {{"size", size}})}, Stages{}}) {
        Stages exact{stages.empty() ? stage("decode", {{"size", size}}) : decode(3)};
        Stages close{stages.empty() ? stage("decode", {{"size", size}, {"fast", true}}) : fast};
        exact.insert(exact.end(), stages.begin(), stages.end());
        close.insert(close.end(), stages.begin(), stages.end());
        const auto a = from_file(exact, file, picture_type(3, size, size));
        const auto b = from_file(close, file, picture_type(3, size, size));
        ASSERT_TRUE(a.ok() && b.ok());
        if (!shrinks) {
          ASSERT_EQ(*a, *b);
          continue;
        }
        for (size_t i = 0; i < a->size(); ++i) {
          differences += std::fabs((*a)[i] - (*b)[i]);
          ++numbers;
        }
      }
    }
  }
  EXPECT_GT(differences / static_cast<double>(numbers), 0.01);  // pictures were decoded at a fraction of their size
  EXPECT_LT(differences / static_cast<double>(numbers), 2);
}

TEST(DecodeStage, ABrokenFileIsReportedBeforeASizeThatDoesNotFit) {
  const std::string good = jpeg_file({.height = 20, .width = 30}, 1);
  const std::string torn = good.substr(0, good.size() / 2);
  const auto code_of = [](const CallSpec& one, const std::string& file) {
    const auto made = from_file({decode(3), one}, file, picture_type(3, 24, 24));
    return made.ok() ? "" : made.error().code;
  };
  const CallSpec crop = stage("center_crop", {{"size", int64_t{24}}});
  EXPECT_EQ(code_of(crop, good), "XG0404");  // too small
  EXPECT_EQ(code_of(crop, torn), "XG0412");
  EXPECT_EQ(code_of(crop, "no picture"), "XG0412");
  for (const CallSpec& one :
       {stage("resize", {{"size", int64_t{24}}}), stage("random_resized_crop", {{"size", int64_t{24}}})}) {
    EXPECT_EQ(code_of(one, good), "");
    EXPECT_EQ(code_of(one, torn), "XG0412");
  }
}

TEST(DecodeStage, ANarrowPictureIsNotResizedToAHugeOne) {
  const std::string file = jpeg_file({.height = 1, .width = 300}, 1);
  const auto made = from_file(
      {decode(3), stage("resize", {{"shorter", int64_t{256}}}), stage("center_crop", {{"size", int64_t{224}}})}, file,
      picture_type(3, 224, 224));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "XG0412");
  EXPECT_THAT(made.error().message, HasSubstr("76800 x 256"));
}

TEST(DecodeStage, ArgumentsOfResizeThatDoNotFitAreRejected) {
  const AugmentDef* resize = data_registry().find_augment("resize");
  const Field pixels{"pixels", {.dtype = DType::kU8, .dims = {kBatch, 3, 40, 60}}};
  const auto message = [&](Attrs args) {
    const auto type = resize->infer(pixels, args);
    return type.ok() ? to_text(*type) : type.error().code + " " + type.error().message;
  };
  EXPECT_EQ(message({{"size", int64_t{8}}}), "f32[N, 3, 8, 8]");
  EXPECT_EQ(message({{"size", std::vector<int64_t>{8, 9}}}), "f32[N, 3, 8, 9]");
  EXPECT_EQ(message({{"shorter", int64_t{20}}}), "f32[N, 3, 20, 30]");
  EXPECT_EQ(message({}), "XG0413 `resize` has no size");
  EXPECT_EQ(message({{"size", int64_t{8}}, {"shorter", int64_t{8}}}), "XG0413 `resize` has both `size` and `shorter`");
  EXPECT_EQ(message({{"size", std::vector<int64_t>{8, 0}}}), "XG0413 `size` is 0");
  EXPECT_EQ(message({{"shorter", int64_t{0}}}), "XG0413 `shorter` is 0");
  EXPECT_EQ(message({{"size", int64_t{8}}, {"filter", "nearest"}}), "XG0413 `filter` is \"nearest\"");
}

// The plan counts the memory of a worker by the largest header (SampleRows::decoding).
TEST(DecodeStage, AResizedPictureNeedsNoMemoryForAllOfItsNumbers) {
  const Field field{"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true};
  const auto bytes_of = [&](const Stages& stages) {
    const auto made =
        Transform::compile({.target = "x", .field = "file", .stages = stages}, field, picture_type(3, 32, 32));
    EXPECT_TRUE(made.ok());
    return made->decode_bytes({.height = 4000, .width = 6000});
  };
  constexpr Bytes kDecoded = Bytes{3} * 4000 * 6000;
  for (const Stages& stages :
       {Stages{stage("decode", {{"size", int64_t{32}}})}, Stages{decode(3), stage("resize", {{"size", int64_t{32}}})},
        Stages{decode(3), stage("random_resized_crop", {{"size", int64_t{32}}})}}) {
    EXPECT_GT(bytes_of(stages), kDecoded);
    EXPECT_LT(bytes_of(stages), kDecoded * 11 / 10);
  }
  EXPECT_GT(bytes_of({decode(3), stage("random_flip"), stage("resize", {{"size", int64_t{32}}})}), 8 * kDecoded);
}

}  // namespace
}  // namespace xrun::runtime
