// Files that paddle.save and the earlier format of torch.save wrote: nested dicts, bf16, split arrays, and damage. The
// types and views of PyTorch are in torch_zip_test.cpp.
#include "runtime/interchange/weights/pickle_file.h"

#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;
using namespace std::string_literals;

// The weights of make_paddle.py, in the order of the file; the weight of a linear layer is [in, out].
const std::string kFirst = "fc.weight NumPy's f4 [3, 2] 0 1 2 3 4 5\n";
const std::string kOthers =
    "fc.bias NumPy's f4 [2] 0 0\nbn.weight NumPy's f4 [2] 1 1\nbn.bias NumPy's f4 [2] 0 0\n"
    "bn._mean NumPy's f4 [2] 0 0\nbn._variance NumPy's f4 [2] 1 1\n";

TEST(PickleFile, TheArraysOfPaddlePaddleAreReadWithoutItsTableOfNames) {
  for (const std::string name : {"net_p2.pdparams", "net_p4.pdparams"}) {
    const auto file = open_weights(kWeights + name);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(show(*file), kFirst + kOthers) << name;
    EXPECT_THAT(file->others(), IsEmpty());
    EXPECT_EQ(file->format(), "a pickle of arrays, as PaddlePaddle writes it, 6 tensors");
  }
}

TEST(PickleFile, TensorsInNestedDictsAreReadAndU16IsBf16) {
  const auto file = open_weights(kWeights + "nested.pdparams");
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(show(*file), AllOf(StartsWith("model.fc.weight NumPy's f4 [3, 2] 0 1 2 3 4 5\nmodel.fc.bias"),
                                 HasSubstr("bf16 uint16, which is bfloat16 in PaddlePaddle [4] 0 1 2 3\n")));
  EXPECT_THAT(file->others(), ElementsAre("epoch (an integer)"));
}

TEST(PickleFile, EveryTypeOfPaddlePaddleIsRead) {
  const auto file = open_weights(kWeights + "types.pdparams");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(file->tensors().size(), 9U);
  for (const WeightTensor& tensor : file->tensors()) {
    const std::vector<float> expected =
        tensor.name == "bool" ? std::vector<float>{0, 1, 1, 1, 1, 1} : std::vector<float>{0, 1, 2, 3, 4, 5};
    EXPECT_EQ(values_of(*file, tensor.name), expected) << tensor.name;
  }
}

TEST(PickleFile, ArraysThatPaddlePaddleHasSplitAreJoined) {
  const auto file = open_weights(kWeights + "split_p2.pdparams");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(show(*file), kOthers + kFirst);
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(directory.write("x.pdparams", changed("split_p2.pdparams", from, to)));
  };
  EXPECT_THAT(error("K\x03K\x02\x86qZ", "K\x03K\x01\x86qZ"),
              HasSubstr("fc.weight is split into parts, but they have more elements than its shape"));
  EXPECT_THAT(error("K\x03K\x02\x86qZ", "K\x03K\x03\x86qZ"),
              HasSubstr("fc.weight in " + directory.path() + "/x.pdparams: its 9 elements"));
  EXPECT_THAT(error("(hDhMe", "(hDhDe"), HasSubstr("the part fc.weight@@.0 is missing"));
  EXPECT_THAT(error("(hDhMe", "(hDh=e"), HasSubstr("the part fc.weight is missing"));
}

TEST(PickleFile, PicklesThatAreNotWeightsAreRejected) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& rest) { return error_of(directory.write("x.pkl", "\x80\x02" + rest)); };
  EXPECT_THAT(error("}q."), StartsWith("XG0412"));
  EXPECT_THAT(error("]K\x01\x61."), HasSubstr("x.pkl: the pickle has no tensor of numbers"));
  EXPECT_THAT(error("cos\nsystem\nX\x02\0\0\0ls\x85R."s),
              AllOf(StartsWith("XG0407: "), HasSubstr("names the function `os.system` at offset 2")));
  EXPECT_THAT(error("K\x01Q."), HasSubstr("no tensor of numbers"));
  EXPECT_THAT(error("ctorch._utils\n_rebuild_tensor_v2\n)R."),
              HasSubstr("a tensor without storage, offset, size and stride"));
  EXPECT_THAT(error("ctorch._utils\n_rebuild_parameter\nK\x01\x85R."), HasSubstr("a parameter without a tensor"));
}

TEST(PickleFile, SharedContainersCannotMakeTheWorkExponential) {
  // An array of no elements, and then 60 tuples that each have the value before twice.
  std::string pickle = "\x80\x02"s + "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\x01\x62\x87R"s +
                       "(K\x01K\0\x85"s + "cnumpy\ndtype\nU\x02\x66\x34\x89\x88\x87R\x89U\0tb"s;
  for (int i = 0; i < 60; ++i) {
    pickle += "2\x86";
  }
  const TemporaryDirectory directory;
  EXPECT_THAT(error_of(directory.write("x.pkl", pickle + ".")), HasSubstr("more than 250000 entries"));
}

TEST(PickleFile, ASmallFileOfTheEarlierFormatOfPyTorchIsRead) {
  const auto file = open_weights(XRUN_SOURCE_DIR "/tests/runtime/data/files/pickles/torch_legacy.pth");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(show(*file), "w torch.float32 [2] 1 1\n");
}

TEST(PickleFile, DamageOfTheEarlierFormatOfPyTorchIsFound) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(directory.write("x.pth", changed("types_legacy.pth", from, to)));
  };
  EXPECT_THAT(error("\x80\x02M\xe9\x03.", "\x80\x02M\xe9\x04."),
              HasSubstr("a file of PyTorch of the protocol 1257; only 1001 is read"));
  const std::string whole = xrun::testing::read_file(kWeights + "types_legacy.pth");
  for (size_t size = 16; size < whole.size(); size += 29) {
    EXPECT_THAT(error_of(directory.write("x.pth", whole.substr(0, size))), StartsWith("XG0412")) << size;
  }
  EXPECT_THAT(error_of(directory.write("x.pth", whole.substr(0, whole.size() - 1))),
              AllOf(HasSubstr("x.pth: offset "), HasSubstr(" elements, but the file ends at byte ")));
}

}  // namespace
}  // namespace xrun::runtime
