// Archives that torch.save wrote: every type and view, nested dicts, byte order, compressed members, and damage.
#include "runtime/interchange/weights/torch_zip.h"

#include <filesystem>

#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;

// The values of types.pth and types_legacy.pth (make_torch.py).
const std::string kTypes =
    "float64 torch.float64 [2, 3] 0 1 2 3 4 5\n"
    "float32 torch.float32 [2, 3] 0 1 2 3 4 5\n"
    "float16 torch.float16 [2, 3] 0 1 2 3 4 5\n"
    "bfloat16 torch.bfloat16 [2, 3] 0 1 2 3 4 5\n"
    "int64 torch.int64 [2, 3] 0 1 2 3 4 5\n"
    "int32 torch.int32 [2, 3] 0 1 2 3 4 5\n"
    "int16 torch.int16 [2, 3] 0 1 2 3 4 5\n"
    "int8 torch.int8 [2, 3] 0 1 2 3 4 5\n"
    "uint8 torch.uint8 [2, 3] 0 1 2 3 4 5\n"
    "uint16 torch.uint16 [2, 3] 0 1 2 3 4 5\n"
    "uint32 torch.uint32 [2, 3] 0 1 2 3 4 5\n"
    "uint64 torch.uint64 [2, 3] 0 1 2 3 4 5\n"
    "float8_e4m3fn torch.float8_e4m3fn [2, 3] 0 1 2 3 4 5\n"
    "float8_e5m2 torch.float8_e5m2 [2, 3] 0 1 2 3 4 5\n"
    "float8_e4m3fnuz torch.float8_e4m3fnuz [2, 3] 0 1 2 3 4 5\n"
    "float8_e5m2fnuz torch.float8_e5m2fnuz [2, 3] 0 1 2 3 4 5\n"
    "bool torch.bool [2, 3] 0 1 0 1 0 1\n"
    "e8m0 torch.float8_e8m0fnu [3] 1 0.5 8\n"
    "transposed torch.float32 [6, 4] 0 6 12 18 1 7 13 19 2 8 14 20 3 9 15 21 4 10 16 22 5 11 17 23\n"
    "every_second torch.float32 [12] 1 3 5 7 9 11 13 15 17 19 21 23\n"
    "middle torch.float32 [2, 2, 2] 5 6 9 10 17 18 21 22\n"
    "expanded torch.float32 [2, 3] 7 7 7 7 7 7\n"
    "scalar torch.int64 [] 3\n"
    "empty torch.float32 [0, 4] \n"
    "parameter torch.float32 [2] 1 2\n"
    "parameter_with_attribute torch.float32 [2] 3 4\n"
    "tensor_with_attribute torch.float32 [2] 5 6\n"
    "tied torch.float32 [2, 3] 0 1 2 3 4 5\n";

TEST(TorchZip, EveryTypeAndViewIsRead) {
  for (const std::string name : {"types.pth", "deflated.pth", "types_legacy.pth"}) {
    SCOPED_TRACE(name);
    const auto file = open_weights(kWeights + name);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(show(*file), kTypes);
    EXPECT_EQ(file->format(),
              name == "types_legacy.pth" ? "PyTorch before 1.6, 28 tensors" : "PyTorch, zip, 28 tensors");
    EXPECT_THAT(file->others(), ElementsAre("complex (a complex64 tensor, which is not read)",
                                            "negated (a negated float32 tensor, which is not read)"));
  }
}

TEST(TorchZip, TensorsOfNestedValuesHaveTheirPathsAsNames) {
  const auto file = open_weights(kWeights + "nested.pth");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(show(*file),
            "state_dict.conv.weight torch.float32 [2] 1 1\n"
            "state_dict.bn.num_batches_tracked torch.int64 [] 9\n"
            "optimizer.state.0.momentum_buffer torch.float32 [2] 2 2\n"
            "ema.0 torch.float32 [1] 4\n"
            "ema.1.0 torch.float32 [1] 5\n"
            "array NumPy's f4 [2, 3] 0 1 2 3 4 5\n");
  EXPECT_THAT(file->others(), ElementsAre("epoch (an integer)", "arch (a text)", "best (an object)", "lr (a float)",
                                          "size (an object)", "device (an object)", "dtype (a function)",
                                          "missing (None)", "optimizer.param_groups (a list)", "scheduler (a dict)"));
}

TEST(TorchZip, AFileMayHoldOneTensorAlone) {
  const auto file = open_weights(kWeights + "one_tensor.pth");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(show(*file), "tensor torch.float32 [3] 1 1 1\n");
}

TEST(TorchZip, TheByteOrderOfTheArchiveIsUsed) {
  for (const std::string name : {"plain.pth", "big_endian.pth"}) {
    const auto file = open_weights(kWeights + name);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(show(*file),
              "w torch.float32 [2, 3] 0 1 2 3 4 5\nh torch.float16 [2, 3] 0 1 2 3 4 5\n"
              "b torch.uint8 [2, 3] 0 1 2 3 4 5\n")
        << name;
  }
  const TemporaryDirectory directory;
  const std::string bytes = changed("no_checksums.pth", "little", "pdp-11");
  EXPECT_THAT(error_of(directory.write("x.pth", bytes)), HasSubstr("byteorder"));
}

TEST(TorchZip, ChecksumsAreCheckedUnlessTheWriterLeftThemOut) {
  EXPECT_EQ(show(*open_weights(kWeights + "no_checksums.pth")), "w torch.float32 [2, 3] 0 1 2 3 4 5\n");
  const TemporaryDirectory directory;
  const std::string three("\0\0\x40\x40", 4);
  const std::string bytes = changed("plain.pth", three, std::string("\0\0\x50\x40", 4));
  EXPECT_THAT(error_of(directory.write("x.pth", bytes)),
              AllOf(StartsWith("XG0412: plain/data/0 in "), HasSubstr("checksum")));
}

TEST(TorchZip, CodeIsNeverRunButRefused) {
  EXPECT_THAT(error_of(kWeights + "module.pth"),
              AllOf(StartsWith("XG0407: module/data.pkl in "),
                    HasSubstr("names the function `torch.nn.modules.linear.Linear` at offset"),
                    HasSubstr("torch.save(model.state_dict(), \"weights.pth\")")));
  EXPECT_THAT(
      error_of(kWeights + "script.pt"),
      AllOf(StartsWith("XG0407: "), HasSubstr("script.pt is an archive of TorchScript, which has the code of a model"),
            HasSubstr("torch.jit.load")));
  const TemporaryDirectory directory;
  const std::string bytes = changed("no_checksums.pth", "ctorch\nFloatStorage\n", "cos\nsystem_of_parts\n");
  EXPECT_THAT(error_of(directory.write("x.pth", bytes)), HasSubstr("names the function `os.system_of_parts`"));
}

TEST(TorchZip, DamagedArchivesAreRejectedWithTheirPlace) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(directory.write("x.pth", changed("no_checksums.pth", from, to)));
  };
  EXPECT_THAT(error("data/0", "data/1"), HasSubstr("the storage no_checksums/data/0 is missing"));
  EXPECT_THAT(error("data.pkl", "data.pkx"), HasSubstr("a zip archive without data.pkl, so PyTorch did not write it"));
  // The size of the storage, 6 elements, and the size of the tensor, (2, 3).
  EXPECT_THAT(error("q\x06K\x06tq", "q\x06K\x07tq"), HasSubstr("24 bytes, but its tensors need 28"));
  EXPECT_THAT(
      error("K\x02K\x03\x86", "K\x02K\x04\x86"),
      AllOf(StartsWith("XG0412: w in "), HasSubstr("its 8 elements (torch.float32) are not within its 24 bytes")));
  EXPECT_THAT(error("FloatStorage", "ByteTstorage"), HasSubstr("names the function `torch.ByteTstorage`"));
  EXPECT_THAT(error("K\x03K\x01\x86", "K\x05K\x01\x86"), HasSubstr("its 6 elements (torch.float32) are not within"));
  EXPECT_THAT(error("K\x03K\x01\x86", "K\x03\x88N\x86"), HasSubstr("the stride of a tensor is"));
  const std::string whole = xrun::testing::read_file(kWeights + "no_checksums.pth");
  for (size_t size = 4; size < whole.size(); size += 11) {
    EXPECT_THAT(error_of(directory.write("x.pth", whole.substr(0, size))), StartsWith("XG0412")) << size;
  }
}

}  // namespace
}  // namespace xrun::runtime
