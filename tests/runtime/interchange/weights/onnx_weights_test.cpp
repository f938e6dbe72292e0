// Constants of ONNX files: every type in raw_data and in typed fields, data in other files, and damage.
#include "runtime/interchange/weights/onnx_weights.h"

#include <filesystem>

#include "runtime/interchange/onnx_initializers.h"
#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;

TEST(OnnxWeights, EveryTypeIsReadInRawDataAndInItsOwnField) {
  const auto file = open_weights(kWeights + "types.onnx");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->format(), "ONNX, 30 tensors");
  int found = 0;
  for (const WeightTensor& tensor : file->tensors()) {
    if (tensor.name.find('.') == std::string::npos) {
      continue;
    }
    ++found;
    const std::string type = tensor.name.substr(tensor.name.find('.') + 1);
    EXPECT_EQ(tensor.dtype, type);
    EXPECT_EQ(tensor.dims, (std::vector<int64_t>{2, 3}));
    const std::vector<float> expected =
        type == "BOOL" ? std::vector<float>{0, 1, 0, 1, 0, 1} : std::vector<float>{0, 1, 2, 3, 4, 5};
    EXPECT_EQ(values_of(*file, tensor.name), expected) << tensor.name;
  }
  EXPECT_EQ(found, 28);
  EXPECT_EQ(values_of(*file, "scalar"), std::vector<float>{2.5});
  EXPECT_EQ(values_of(*file, "empty"), std::vector<float>());
  EXPECT_THAT(file->others(), ElementsAre("strings (STRING, which is not read)", "int4 (INT4, which is not read)",
                                          "sparse (a sparse tensor, which is not read)"));
}

TEST(OnnxWeights, TooManyConstantsAreRejected) {
  std::string constants;  // two bytes each, without a name
  for (int i = 0; i < 250'002; ++i) {
    constants += std::string("\x2A\0", 2);
  }
  std::string bytes = "\x3A";  // the graph, with its size as a varint
  for (size_t rest = constants.size(); rest > 0; rest >>= 7U) {
    bytes += static_cast<char>((rest & 0x7FU) | (rest > 0x7FU ? 0x80U : 0U));
  }
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of(directory.write("m.onnx", bytes + constants)),
              AllOf(StartsWith("XG0412"), HasSubstr("more than 250000 constants")));
}

TEST(OnnxWeights, DataInAnotherFileOfTheFolderIsRead) {
  EXPECT_EQ(show(*open_weights(kWeights + "external.onnx")),
            "raw.FLOAT FLOAT [2, 3] 0 1 2 3 4 5\nhalf FLOAT16 [2, 3] 0 1 2 3 4 5\n");
}

TEST(OnnxWeights, ExternalDataThatIsMissingShortOrElsewhereIsRejected) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(directory.write("m.onnx", changed("external.onnx", from, to)));
  };
  EXPECT_THAT(error("external", "external"), AllOf(StartsWith("XG0401"), HasSubstr("/external.onnx.data")));
  EXPECT_THAT(error("external.onnx.data", "../ernal.onnx.data"), HasSubstr("which is outside of its folder"));
  EXPECT_THAT(error("external.onnx.data", "/xternal.onnx.data"), HasSubstr("which is outside of its folder"));
  directory.write("external.onnx.data", std::string(35, 'x'));
  EXPECT_THAT(error("external", "external"), HasSubstr("half needs 12 bytes from 24 on, but it has 35"));
  directory.write("external.onnx.data", std::string(36, 'x'));
  EXPECT_THAT(error("length\x12\x02"
                    "12",
                    "length\x12\x02"
                    "10"),
              HasSubstr("half has 10 bytes of data, but its shape needs 12"));
  EXPECT_THAT(error("length\x12\x02"
                    "12",
                    "length\x12\x02"
                    "1x"),
              HasSubstr("the length of external data is not"));
}

TEST(OnnxWeights, DamagedModelsAreRejectedWithTheirPlace) {
  const TemporaryDirectory directory;
  const std::string whole = xrun::testing::read_file(kWeights + "types.onnx");
  for (size_t size = 1; size < whole.size(); size += 7) {
    EXPECT_THAT(error_of(directory.write("m.onnx", whole.substr(0, size))),
                AllOf(StartsWith("XG0412"), HasSubstr("not a model of ONNX, or damaged near byte ")))
        << size;
  }
  EXPECT_THAT(error_of(directory.write("m.onnx", whole + '\x08')), StartsWith("XG0412"));
  // The dimensions of raw.FLOAT: 2, 3.
  EXPECT_THAT(error_of(directory.write("m.onnx", changed("types.onnx",
                                                         "\x08\x02\x08\x03\x10\x01"
                                                         "B\x09raw",
                                                         "\x08\x02\x08\x04\x10\x01"
                                                         "B\x09raw"))),
              HasSubstr("raw.FLOAT has 24 bytes of data, but its shape needs 32"));
}

TEST(OnnxWeights, AModelAboveTheLimitOfProtobufIsRefusedWithTheReason) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("m.onnx", "\x08\x07");
  fs::resize_file(path, static_cast<uintmax_t>(kMostOnnx) + 1);
  EXPECT_THAT(error_of(path), AllOf(StartsWith("XG0412"), HasSubstr("protobuf reads less than 2 GiB"),
                                    HasSubstr("save_as_external_data=True")));
}

}  // namespace
}  // namespace xrun::runtime
