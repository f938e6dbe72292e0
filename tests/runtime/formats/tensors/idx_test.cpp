// IDX files of every element type are read correctly, and the error about an unsuitable file says what the file holds.
#include <bit>
#include <gmock/gmock.h>

#include "runtime/data/open_reader.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;

// Returns the lowest `bytes` bytes of the number, big-endian.
std::string big(uint64_t bits, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text += static_cast<char>(bits >> (8 * i));
  }
  return text;
}

std::string idx(int type, const std::vector<uint32_t>& dims, const std::string& data) {
  std::string file = {0, 0, static_cast<char>(type), static_cast<char>(dims.size())};
  for (const uint32_t dim : dims) {
    file += big(dim, 4);
  }
  return file + data;
}

std::string f32(float x) { return big(std::bit_cast<uint32_t>(x), 4); }
std::string f64(double x) { return big(std::bit_cast<uint64_t>(x), 8); }

class IdxTypes : public testing::Files {
 protected:
  Result<std::unique_ptr<Reader>> open(const std::string& images, const std::string& labels) {
    return open_reader(
        testing::source("train", "idx", {{"images", write("i", images)}, {"labels", write("l", labels)}}));
  }
  std::string refusal(const std::string& images, const std::string& labels) {
    const auto reader = open(images, labels);
    return reader.ok() ? "" : reader.error().code + " " + reader.error().message + "; " + reader.error().help;
  }
  const std::string labels_ = idx(8, {1}, std::string(1, 0));
};

TEST_F(IdxTypes, AreReadAsTheirValues) {
  struct Case {
    int type;
    std::string data;
    std::vector<float> values;
    std::string name;
  };
  const Case cases[] = {{0x09, "\x80\x7F", {-128, 127}, "i8"},
                        {0x0B, big(0x8000, 2) + big(300, 2), {-32768, 300}, "i16"},
                        {0x0C, big(0xFFFFFFFE, 4) + big(1 << 20, 4), {-2, 1 << 20}, "i32"},
                        {0x0D, f32(-0.25F) + f32(1.5e30F), {-0.25F, 1.5e30F}, "f32"},
                        {0x0E, f64(0.1) + f64(-3), {0.1F, -3}, "f64"}};
  for (const Case& one : cases) {
    const auto reader = open(idx(one.type, {1, 1, 2}, one.data), labels_).value();
    EXPECT_THAT(reader->describe(), HasSubstr("1 image of 1x2 " + one.name));
    EXPECT_EQ(reader->fields()[0].type.dtype, DType::kF32);
    FieldValue value;
    ASSERT_TRUE(reader->read(0, 0, value).ok());
    ASSERT_EQ(value.bytes.size(), 8u);
    const auto* found = reinterpret_cast<const float*>(value.bytes.data());
    EXPECT_EQ(std::vector<float>(found, found + 2), one.values) << one.name;
  }
}

TEST_F(IdxTypes, PixelsThatAreNotFiniteAreBrokenSamples) {
  const std::string two = idx(8, {2}, std::string(2, 0));
  const std::string huge = idx(0x0E, {2, 1, 1}, f64(1) + f64(1e300));
  const auto reader = open(huge, two).value();
  FieldValue value;
  EXPECT_TRUE(reader->read(0, 0, value).ok());
  const Status read = reader->read(1, 0, value);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, "XG0412");
  EXPECT_THAT(read.error().message, HasSubstr("pixel 0 is inf"));
}

TEST_F(IdxTypes, ErrorsNameTheTypeAndShapeOfTheFile) {
  const std::string images = idx(8, {1, 1, 2}, "ab");
  EXPECT_THAT(refusal(idx(0x0D, {1, 2}, f32(1) + f32(2)), labels_),
              HasSubstr("holds f32 [1, 2], but pictures must be [samples, height, width]"));
  EXPECT_THAT(refusal(idx(8, {1, 3, 1, 1}, "abc"), labels_), HasSubstr("holds u8 [1, 3, 1, 1], but pictures must be"));
  EXPECT_THAT(refusal(labels_, images), HasSubstr("`images` and `labels` may be swapped"));
  EXPECT_THAT(refusal(images, idx(0x0D, {1}, f32(1))),
              HasSubstr("holds f32 [1], but labels must be whole numbers [samples]; write them as u8, i8, i16 or i32"));
  EXPECT_THAT(refusal(images, idx(8, {1, 1}, "a")),
              HasSubstr("holds u8 [1, 1], but labels must be whole numbers [samples]"));
  EXPECT_THAT(refusal(std::string("\0\0\x0A\1", 4), labels_), HasSubstr("not an IDX file"));
}

// The checker opens no file and assumes a field of bytes. When the file is open, the field has numbers.
TEST_F(IdxTypes, TrainAndPredict) {
  std::string data;
  std::string classes;
  for (int i = 0; i < 40; ++i) {
    data += f32(i % 2 == 0 ? 1.0F : -1.0F) + f32(0.5F);
    classes += static_cast<char>(i % 2);
  }
  write("images", idx(0x0D, {40, 1, 2}, data));
  write("labels", idx(8, {40}, classes));
  write("m.xgraph", R"(xgraph 1
model m {
  input x: f32[N, 1, 1, 2]
  logits = x -> flatten -> linear(2)
  output logits
}
data d {
  source train = idx("images", "labels")
  x     = pixels
  label = label -> as_index(2)
}
train t {
  batch     = 8
  norm_rows = 1
  epochs    = 20
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = 0.5
}
)");
  const xrun::testing::CommandOptions here{.directory = root_.string()};
  const auto trained = xrun::testing::run_xrun({"train", "m.xgraph", "--progress", "plain"}, here);
  ASSERT_EQ(trained.exit, 0) << trained.err;
  const auto predicted = xrun::testing::run_xrun(
      {"predict", "ckpt/t", "--source", "train", "--rows", "0..2", "--topk", "1", "--scores", "logits"}, here);
  ASSERT_EQ(predicted.exit, 0) << predicted.err;
  EXPECT_THAT(predicted.out, HasSubstr("/images   logits   0 "));
  EXPECT_THAT(predicted.out, HasSubstr("/images   logits   1 "));
}

}  // namespace
}  // namespace xrun::runtime
