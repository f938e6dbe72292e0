// Files of constants next to an ONNX file, and files that cannot be written.
#include "runtime/interchange/onnx_module.h"

#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using xrun::testing::read_file;
using xrun::testing::TemporaryDirectory;

// y = x · aᵀ + z · bᵀ, with two weights that are parameters.
ops::OnnxGraph two_products() {
  ops::OnnxGraph graph{.name = "two"};
  graph.inputs = {{"x", ops::OnnxType::kFloat, {kBatch, 3}}};
  graph.outputs = {{"y", ops::OnnxType::kFloat, {kBatch, 2}}};
  graph.constants = {{.name = "a", .dims = {2, 3}, .param = ParamId(0)},
                     {.name = "b", .dims = {2, 3}, .param = ParamId(1)}};
  graph.nodes = {{"Gemm", "first", {"x", "a"}, {"p"}, {{"transB", int64_t{1}}}},
                 {"Gemm", "second", {"x", "b"}, {"q"}, {{"transB", int64_t{1}}}},
                 {"Add", "sum", {"p", "q"}, {"y"}, {}}};
  return graph;
}

void fill(const ops::OnnxTensor& constant, std::byte* out) {
  for (int i = 0; i < 6; ++i) {
    reinterpret_cast<float*>(out)[i] = static_cast<float>(constant.param.index == 0 ? i : 10 * i);
  }
}

TEST(OnnxModule, ConstantsBeyondTheLimitAreInAFileOfTheirOwn) {
  const TemporaryDirectory directory;
  const OnnxFile file{.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data", .most_inside = 47};
  const auto written = write_onnx(two_products(), fill, file);
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(written->data_bytes, 2 * 64 * kKiB + 24);  // the constants begin at multiples of 64 KiB, after the magic
  const std::string data = read_file(directory.path() + "/m.onnx.data");
  ASSERT_EQ(std::ssize(data), written->data_bytes);
  EXPECT_TRUE(data.starts_with(kOnnxDataMagic));
  float last = 0;
  std::memcpy(&last, data.data() + data.size() - sizeof(float), sizeof(float));
  EXPECT_EQ(last, 50);
  EXPECT_THAT(read_file(file.path), HasSubstr("m.onnx.data"));
  const OnnxFile one{.path = directory.path() + "/one.onnx", .data_name = "one.onnx.data", .most_inside = 48};
  ASSERT_TRUE(write_onnx(two_products(), fill, one).ok());
  EXPECT_FALSE(fs::exists(directory.path() + "/one.onnx.data"));
}

TEST(OnnxModule, AFileOfConstantsReplacesOnlyOneOfXrun) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/m.onnx";
  EXPECT_TRUE(check_data_place(two_products(), path, 47).ok());
  directory.write("m.onnx.data", "weights of another program");
  const Status refused = check_data_place(two_products(), path, 47);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0901");
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(refused.error().message, HasSubstr("m.onnx.data` exists and is not a file of constants that xrun wrote"));
  EXPECT_TRUE(check_data_place(two_products(), path, 48).ok()) << "such a model has no file of constants";
  ASSERT_TRUE(write_onnx(two_products(), fill, {.path = path, .data_name = "m.onnx.data", .most_inside = 47}).ok());
  EXPECT_TRUE(check_data_place(two_products(), path, 47).ok());
}

TEST(OnnxModule, AModelThatIsNoModelIsRejectedByTheChecker) {
  const TemporaryDirectory directory;
  ops::OnnxGraph graph = two_products();
  graph.nodes[2].inputs[1] = "nothing";
  const auto written = write_onnx(graph, fill, {.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data"});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code, "XG0932");
  EXPECT_THAT(written.error().message, HasSubstr("nothing"));
}

TEST(OnnxModule, ARequestToStopEndsTheWriting) {
  const TemporaryDirectory directory;
  const std::atomic<bool> stop{true};
  const auto written = write_onnx(two_products(), fill,
                                  {.path = directory.path() + "/m.onnx", .data_name = "m.onnx.data", .stop = &stop});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kInterrupted);
}

TEST(OnnxModule, AFileThatCannotBeWrittenIsReportedWithItsPath) {
  for (const Bytes inside : {Bytes{0}, kGiB}) {
    const auto written = write_onnx(two_products(), fill,
                                    {.path = "/dev/full/m.onnx", .data_name = "m.onnx.data", .most_inside = inside});
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().code, "XG0901");
    EXPECT_EQ(written.error().kind, ErrorKind::kWorld);
    EXPECT_THAT(written.error().message, HasSubstr("/dev/full/m.onnx"));
  }
}

}  // namespace
}  // namespace xrun::runtime
