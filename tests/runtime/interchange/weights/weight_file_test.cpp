// Formats are recognised by their contents, whatever the name of the file is; other files get a message that helps.
#include "runtime/interchange/weights/weight_file.h"

#include <filesystem>
#include <random>

#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;

TEST(WeightFile, TheFormatIsRecognisedWithoutTheName) {
  const TemporaryDirectory directory;
  for (const auto& [name, format] : std::vector<std::pair<std::string, std::string>>{
           {"types.pth", "PyTorch, zip, 28 tensors"},
           {"types_legacy.pth", "PyTorch before 1.6, 28 tensors"},
           {"net_p4.pdparams", "a pickle of arrays, as PaddlePaddle writes it, 6 tensors"},
           {"types.safetensors", "safetensors, 20 tensors"},
           {"types.onnx", "ONNX, 30 tensors"}}) {
    fs::copy_file(kWeights + name, directory.path() + "/weights", fs::copy_options::overwrite_existing);
    const auto file = open_weights(directory.path() + "/weights");
    ASSERT_NE(file, nullptr) << name;
    EXPECT_EQ(file->format(), format);
  }
}

TEST(WeightFile, OtherFilesGetAMessageThatHelps) {
  const TemporaryDirectory directory;
  const auto error = [&](const std::string& bytes) { return error_of(directory.write("weights", bytes)); };
  EXPECT_THAT(error(""), AllOf(StartsWith("XG0412"), HasSubstr("the file is empty")));
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("a pointer of Git LFS"));
  EXPECT_THAT(error("<!DOCTYPE html><html>"), HasSubstr("a web page"));
  EXPECT_THAT(error("\x1f\x8b\x08xxxxxxxx"), HasSubstr("compressed by gzip"));
  EXPECT_THAT(error("\x89HDF\r\n\x1a\n"), HasSubstr("HDF5, as Keras writes it, which is not read as weights"));
  EXPECT_THAT(error("GGUFxxxxxxxx"), HasSubstr("GGUF"));
  EXPECT_THAT(error("hello"), AllOf(HasSubstr("an unknown format"), HasSubstr("name a file of PyTorch (.pth)")));
  EXPECT_THAT(error_of(directory.path() + "/missing"), StartsWith("XG0401"));
  EXPECT_THAT(error_of(directory.path()), StartsWith("XG0401"));
}

TEST(WeightFile, AStopEndsTheOpening) {
  const std::atomic<bool> stop = true;
  for (const std::string name : {"types.pth", "types.safetensors", "model.safetensors.index.json", "types.onnx"}) {
    const auto opened = open_weight_file(kWeights + name, &stop);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().kind, ErrorKind::kInterrupted) << name;
  }
}

TEST(WeightFile, AnyPartOfATensorCanBeRead) {
  const auto file = open_weights(kWeights + "types.pth");
  ASSERT_NE(file, nullptr);
  const auto at = std::ranges::find(file->tensors(), "transposed", &WeightTensor::name) - file->tensors().begin();
  std::vector<float> values(3);
  ASSERT_TRUE(file->read(static_cast<size_t>(at), 3, 3, values.data()).ok());
  EXPECT_EQ(values, (std::vector<float>{18, 1, 7}));
}

// Damage anywhere gives an error or other numbers, but nothing else.
TEST(WeightFile, RandomDamageIsSurvived) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TemporaryDirectory directory;
  int errors = 0;
  for (const auto& entry : fs::directory_iterator(kWeights)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".py") || name.ends_with(".md") || name.ends_with(".data")) {
      continue;
    }
    const std::string whole = xrun::testing::read_file(entry.path());
    for (int round = 0; round < 40; ++round) {
      std::string bytes = whole;
      for (int i = std::uniform_int_distribution(1, 4)(random); i > 0; --i) {
        bytes[std::uniform_int_distribution<size_t>(0, bytes.size() - 1)(random)] =
            static_cast<char>(std::uniform_int_distribution(0, 255)(random));
      }
      const auto opened = open_weight_file(directory.write(name, bytes));
      if (!opened.ok()) {
        ++errors;
        EXPECT_FALSE(opened.error().message.empty());
        continue;
      }
      for (size_t i = 0; i < opened.value()->tensors().size(); ++i) {
        std::vector<float> values(static_cast<size_t>(std::min<int64_t>(opened.value()->tensors()[i].elements(), 64)));
        errors += opened.value()->read(i, 0, std::ssize(values), values.data()).ok() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(errors, 100);
}

}  // namespace
}  // namespace xrun::runtime
