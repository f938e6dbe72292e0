// safetensors files of the reference implementation, misaligned data, and damage. The header itself is tested in
// tests/runtime/formats/tensors/safetensors_test.cpp.
#include "runtime/interchange/weights/safetensors_weights.h"

#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using xrun::testing::TemporaryDirectory;

TEST(SafetensorsWeights, EveryTypeOfTheReferenceImplementationIsReadOrNamed) {
  const auto file = open_weights(kWeights + "types.safetensors");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->format(), "safetensors, 20 tensors");
  const std::vector<float> numbers{0, 1, 2, 3, 4, 5};
  for (const auto& [name, dtype] :
       std::vector<std::pair<std::string, std::string>>{{"float64", "F64"},
                                                        {"float32", "F32"},
                                                        {"float16", "F16"},
                                                        {"bfloat16", "BF16"},
                                                        {"int64", "I64"},
                                                        {"int32", "I32"},
                                                        {"int16", "I16"},
                                                        {"int8", "I8"},
                                                        {"uint8", "U8"},
                                                        {"uint16", "U16"},
                                                        {"uint32", "U32"},
                                                        {"uint64", "U64"},
                                                        {"float8_e4m3fn", "F8_E4M3"},
                                                        {"float8_e5m2", "F8_E5M2"},
                                                        {"float8_e4m3fnuz", "F8_E4M3FNUZ"},
                                                        {"float8_e5m2fnuz", "F8_E5M2FNUZ"}}) {
    const auto found = std::ranges::find(file->tensors(), name, &WeightTensor::name);
    ASSERT_NE(found, file->tensors().end()) << name;
    EXPECT_EQ(found->dtype, dtype);
    EXPECT_EQ(found->dims, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(values_of(*file, name), numbers) << name;
  }
  EXPECT_EQ(values_of(*file, "bool"), (std::vector<float>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(values_of(*file, "e8m0"), (std::vector<float>{1, 0.5, 8}));
  EXPECT_EQ(values_of(*file, "scalar"), std::vector<float>{3});
  EXPECT_EQ(values_of(*file, "empty"), std::vector<float>());
  EXPECT_THAT(file->others(),
              UnorderedElementsAre(StartsWith("complex (C64 [1], which is not read"), StartsWith("f4 (F4 [")));
}

TEST(SafetensorsWeights, MisalignedDataIsRead) {
  EXPECT_EQ(show(*open_weights(kWeights + "misaligned.safetensors")), "a U8 [1] 5\nb F32 [2] 1 2\n");
  EXPECT_EQ(show(*open_weights(kWeights + "numpy.safetensors")), "b F32 [2, 3] 0 1 2 3 4 5\na U8 [3] 0 1 2\n");
}

TEST(SafetensorsWeights, OverlapsHolesAndCutFilesAreRejected) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(directory.write("x.safetensors", changed("misaligned.safetensors", from, to)));
  };
  EXPECT_THAT(error("[1, 9]", "[0, 8]"), HasSubstr("XG0715"));
  EXPECT_THAT(error("[1, 9]", "[0, 9]"), HasSubstr("another tensor overlaps it"));
  EXPECT_THAT(error("[0, 1]", "[1, 1]"), HasSubstr("there is a gap before it"));
  EXPECT_THAT(error("\"b\"", "\"a\""), HasSubstr("the name \"a\" twice"));
  EXPECT_THAT(error("F32", "F99"), HasSubstr("the unknown dtype \"F99\""));
  const std::string whole = xrun::testing::read_file(kWeights + "misaligned.safetensors");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(error_of(directory.write("x.safetensors", whole.substr(0, size))), StartsWith("XG0")) << size;
  }
  EXPECT_THAT(error_of(directory.write("x.safetensors", whole + "x")), HasSubstr("bytes of data, but the header says"));
}

}  // namespace
}  // namespace xrun::runtime
