// Copying of tensors into the state of a run, from files in memory.
#include "runtime/interchange/import/copy_tensors.h"

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of tensors in memory. Element i of a tensor is its first number plus i.
class MemoryWeights final : public WeightFile {
 public:
  MemoryWeights& add(std::string name, std::vector<int64_t> dims, float first) {
    tensors_.push_back({std::move(name), "F32", std::move(dims)});
    firsts_.push_back(first);
    return *this;
  }
  const std::string& format() const override { return format_; }
  const std::vector<WeightTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& others() const override { return others_; }
  Status read(size_t index, int64_t first, int64_t count, float* to) const override {
    EXPECT_LE(first + count, elements_of(tensors_[index].dims));
    std::iota(to, to + count, firsts_[index] + static_cast<float>(first));
    return broken_ ? Status(Error{ErrorKind::kContent, "XG0412", "damaged"}) : Status();
  }
  bool broken_ = false;

 private:
  std::string format_ = "memory";
  std::vector<WeightTensor> tensors_;
  std::vector<float> firsts_;
  std::vector<std::string> others_;
};

class CopyTensors : public ::testing::Test {
 protected:
  CopyTensors() {
    for (const StateTensor& tensor : model_.state().tensors()) {
      form_.tensors.push_back({tensor.name, tensor.type.dims});
    }
  }

  size_t index_of(const std::string& name) const {
    const auto at = std::ranges::find(form_.tensors, name, &ModelTensor::name);
    return static_cast<size_t>(at - form_.tensors.begin());
  }
  // Adds a file with tensors of these rows, each of 8 numbers, and returns their indices.
  std::vector<size_t> add(std::vector<std::pair<std::vector<int64_t>, float>> tensors) {
    auto file = std::make_unique<MemoryWeights>();
    std::vector<size_t> indices;
    for (auto& [dims, first] : tensors) {
      indices.push_back(tensors_.size());
      tensors_.push_back({"t" + std::to_string(tensors_.size()), dims, files_.size(), file->tensors().size()});
      file->add(tensors_.back().name, dims, first);
    }
    last_ = file.get();
    files_.push_back(std::move(file));
    return indices;
  }
  Status copy(const std::vector<Fit>& fits, StopFlag stop = nullptr) {
    return copy_tensors(fits, tensors_, files_, form_, model_.state(), stop);
  }
  std::vector<float> values(const std::string& name) {
    const StateTensor& tensor = *model_.state().find(name);
    std::vector<float> all(static_cast<size_t>(tensor.rows() * tensor.row_elements()));
    model_.state().read_values(tensor, 0, tensor.rows(), all.data());
    return all;
  }

  testing::CheckpointModel model_{2, 30};
  ModelForm form_;
  std::vector<ForeignTensor> tensors_;
  std::vector<std::unique_ptr<WeightFile>> files_;
  MemoryWeights* last_ = nullptr;
};

TEST_F(CopyTensors, WholeTensorsAndScalarsAreCopied) {
  const auto from = add({{{4, 6}, 100}, {{5}, 7}, {{1}, 3}});
  ASSERT_TRUE(copy({{.to = index_of("trunk.conv.weight"), .from = {from[0]}},
                    {.to = index_of("trunk.bn.mean"), .from = {from[1]}},
                    {.to = index_of("trunk.scale"), .from = {from[2]}}})
                  .ok());
  EXPECT_EQ(values("trunk.conv.weight")[23], 123);
  EXPECT_THAT(values("trunk.bn.mean"), ElementsAre(7, 8, 9, 10, 11));
  EXPECT_THAT(values("trunk.scale"), ElementsAre(3));
}

TEST_F(CopyTensors, RowsOfSeveralFilesFollowOneAnotherOverAllShards) {
  const size_t first = add({{{16, 8}, 0}})[0];
  const size_t second = add({{{14, 8}, 1000}})[0];
  ASSERT_TRUE(copy({{.to = index_of("id.weight"), .from = {first, second}}}).ok());
  const auto all = values("id.weight");
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i], i < 128 ? static_cast<float>(i) : 1000.0F + static_cast<float>(i - 128)) << i;
  }
}

TEST_F(CopyTensors, APartBeginsAtItsElement) {
  const size_t from = add({{{9}, 0}})[0];
  ASSERT_TRUE(copy({{.to = index_of("trunk.bn.mean"), .from = {from}, .first = 4}}).ok());
  EXPECT_THAT(values("trunk.bn.mean"), ElementsAre(4, 5, 6, 7, 8));
}

TEST_F(CopyTensors, TransposedTensorsAreReadByColumns) {
  const size_t from = add({{{6, 4}, 0}})[0];
  ASSERT_TRUE(copy({{.to = index_of("trunk.conv.weight"), .from = {from}, .transposed = true}}).ok());
  const auto all = values("trunk.conv.weight");  // 4 rows of 6
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 6; ++c) {
      EXPECT_EQ(all[r * 6 + c], static_cast<float>(c * 4 + r));
    }
  }
}

TEST_F(CopyTensors, TransposedTensorsMayHaveDimensionsOfOne) {
  testing::CheckpointModel model{2, 30, true, RowFormat::kF32, {1, 4, 6}};
  const size_t from = add({{{6, 1, 4}, 0}})[0];
  const std::vector<Fit> fits{{.to = index_of("trunk.conv.weight"), .from = {from}, .transposed = true}};
  ASSERT_TRUE(copy_tensors(fits, tensors_, files_, form_, model.state(), nullptr).ok());
  std::vector<float> all(24);
  model.state().read_values(*model.state().find("trunk.conv.weight"), 0, 1, all.data());
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 6; ++c) {
      EXPECT_EQ(all[r * 6 + c], static_cast<float>(c * 4 + r));
    }
  }
}

TEST_F(CopyTensors, ErrorsAndNumbersThatAreNotFiniteEndIt) {
  const size_t infinite = add({{{5}, std::numeric_limits<float>::infinity()}})[0];
  const Status status = copy({{.to = index_of("trunk.bn.mean"), .from = {infinite}}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "XG0412");
  EXPECT_THAT(status.error().message, HasSubstr("`t0` has a number that is not finite"));
  const size_t broken = add({{{5}, 1}})[0];
  last_->broken_ = true;
  EXPECT_EQ(copy({{.to = index_of("trunk.bn.mean"), .from = {broken}}}).error().message, "damaged");
  const std::atomic<bool> stop = true;
  EXPECT_EQ(copy({{.to = index_of("trunk.bn.mean"), .from = {broken}}}, &stop).error().kind, ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace xrun::runtime
