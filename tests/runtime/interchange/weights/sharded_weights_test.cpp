// Sets of shards with an index, as the safetensors library and Hugging Face's tools write them, and broken sets.
#include "runtime/interchange/weights/sharded_weights.h"

#include <filesystem>

#include "tests/runtime/interchange/weights/weights.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using xrun::testing::TemporaryDirectory;

const std::string kIndex = "model.safetensors.index.json";

class ShardedWeights : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
      fs::copy_file(kWeights + name, directory_.path() + "/" + name);
    }
  }
  std::string error(const std::string& index) { return error_of(directory_.write(kIndex, index)); }
  std::string error_with(const std::string& from, const std::string& to) { return error(changed(kIndex, from, to)); }

  TemporaryDirectory directory_;
};

TEST_F(ShardedWeights, TheTensorsOfAllShardsAreRead) {
  const auto file = open_weights(kWeights + kIndex);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->format(), "safetensors, 2 shards, 3 tensors");
  EXPECT_EQ(show(*file), "a.bias F32 [2] 0 0\na.weight F32 [2, 2] 1 1 1 1\nb.weight F32 [3] 2 2 2\n");
}

TEST_F(ShardedWeights, ShardsOfPyTorchAreReadLikewise) {
  fs::copy_file(kWeights + "one_tensor.pth", directory_.path() + "/pytorch_model-00001-of-00001.bin");
  const std::string index = directory_.write("pytorch_model.bin.index.json",
                                             R"({"weight_map": {"tensor": "pytorch_model-00001-of-00001.bin"}})");
  const auto file = open_weights(index);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->format(), "PyTorch, zip, 1 shard, 1 tensor");
}

TEST_F(ShardedWeights, NamesOutsideOfTheFolderAreRefused) {
  for (const std::string name : {"../model-00001-of-00002.safetensors", "/etc/passwd", "a/../../b", "..", ""}) {
    EXPECT_THAT(error(fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", name)),
                AllOf(StartsWith("XG0412"), HasSubstr("which is outside of its folder")))
        << name;
  }
  EXPECT_THAT(error(R"({"weight_map": {"a": "x\u0000y"}})"), HasSubstr("outside of its folder"));
  EXPECT_EQ(file_in_folder("/a/model.onnx", "data/..x/w.bin").value(), "/a/data/..x/w.bin");
  EXPECT_EQ(file_in_folder("model.onnx", "w.bin").value(), "w.bin");
}

TEST_F(ShardedWeights, ATensorThatIsNotInItsShardIsReported) {
  EXPECT_THAT(error_with("a.bias", "a.bian"),
              HasSubstr("a.bian is not in model-00001-of-00002.safetensors, as the index says"));
}

TEST_F(ShardedWeights, AShardOfAnotherSetIsReported) {
  const std::string index = R"({"weight_map": {"a.weight": "model-00001-of-00002.safetensors"}})";
  EXPECT_THAT(error(index),
              HasSubstr("model-00001-of-00002.safetensors has a.bias, which the index does not list for it, "
                        "so it is a shard of another set"));
  EXPECT_THAT(error(index), HasSubstr("get the index and all of its shards again"));
}

TEST_F(ShardedWeights, AMissingShardAndBadIndicesAreReported) {
  EXPECT_THAT(error_with("00002-of", "00003-of"),
              AllOf(StartsWith("XG0401"), HasSubstr("model-00003-of-00002.safetensors")));
  EXPECT_THAT(error("{"), HasSubstr("it has no object \"weight_map\""));
  EXPECT_THAT(error("{\"weight_map\": []}"), HasSubstr("it has no object \"weight_map\""));
  EXPECT_THAT(error("{\"weight_map\": {}}"), HasSubstr("\"weight_map\" is empty"));
  EXPECT_THAT(error("{\"weight_map\": {\"a\": 1}}"), HasSubstr("no file name for a"));
  EXPECT_THAT(error(std::string(100, '[')), HasSubstr("XG0412"));
  // An index that lists itself is not a shard.
  EXPECT_THAT(error(R"({"weight_map": {"a": "model.safetensors.index.json"}})"), HasSubstr("an unknown format"));
}

}  // namespace
}  // namespace xrun::runtime
