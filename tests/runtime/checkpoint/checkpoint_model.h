// A small model whose state can be saved and loaded, and a directory for its checkpoints.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tensors/describe.h"
#include "runtime/device/bound_memory.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/support/optimizers.h"

namespace xrun::runtime::testing {

namespace fs = std::filesystem;

// The state of a small model: a trunk weight, running statistics, a scalar, and a head of `classes` rows over `shards`
// shards. The trunk weight has the dimensions `trunk`. Each weight has the two optimizer states of adamw. Class rows
// have the format `rows`; their optimizer states are f32.
class CheckpointModel {
 public:
  explicit CheckpointModel(int shards, int64_t classes = 300, bool training = true, RowFormat rows = RowFormat::kF32,
                           std::vector<int64_t> trunk = {4, 3, 2}) {
    module_.train.optimizer = test::optimizer("adamw");
    add("trunk.conv.weight", std::move(trunk), true, false);
    add("trunk.bn.mean", {5}, false, false);
    add("trunk.scale", {}, true, false);
    add("id.weight", {classes, 8}, true, true);
    module_.graph.heads.push_back({.name = "id"});
    planner::HeadPlan head{.head = 0, .weight = ParamId(3), .classes = classes, .dim = 8, .weights = rows};
    for (int r = 0; r < shards; ++r) {
      head.shards.push_back({.shard = r, .row_begin = classes * r / shards, .row_end = classes * (r + 1) / shards});
    }
    program_.heads.push_back(head);
    for (size_t p = 0; p < module_.graph.params.size(); ++p) {
      const Parameter& param = module_.graph.params[p];
      const bool is_head = p == 3;
      for (int r = 0; r < (is_head ? shards : 1); ++r) {
        const int64_t count =
            is_head ? head.shards[static_cast<size_t>(r)].row_end - head.shards[static_cast<size_t>(r)].row_begin : 0;
        const Bytes bytes = is_head ? count * 32 : module_.graph.value(param.value).type.bytes(0, 0);
        place(is_head         ? planner::Purpose::kHeadWeight
              : param.trained ? planner::Purpose::kWeight
                              : planner::Purpose::kState,
              is_head ? count * 8 * element_bytes(rows) : bytes, p, -1, is_head ? r : -1);
        if (is_head && rows == RowFormat::kFp8) {
          place(planner::Purpose::kHeadScale, count * 4, p, -1, r);
        }
        for (int state = 0; training && param.trained && state < 2; ++state) {
          place(is_head ? planner::Purpose::kHeadOptimizer : planner::Purpose::kOptimizer, bytes, p, state,
                is_head ? r : -1);
        }
      }
    }
    program_.arenas = {{.device = 0, .bytes = align_up(end_ + 64)}};
    auto memory = BoundMemory::map(program_, *devices_);
    EXPECT_TRUE(memory.ok());
    memory_ = std::make_unique<BoundMemory>(std::move(memory).value());
    state_ = std::make_unique<TrainState>(module_, program_, *memory_, *devices_);
  }

  TrainState& state() { return *state_; }
  TrainSpec& train() { return module_.train; }

  // Fills the tensors with numbers that depend on the seed, the tensor and the row, but not on the number of shards.
  void fill(uint64_t seed) {
    for (const StateTensor& tensor : state_->tensors()) {
      if (tensor.role == StateTensor::Role::kScale) {
        continue;  // the scales of rows are filled together with the rows
      }
      const RandomStream stream(seed, stable_hash(tensor.name));
      std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.row_elements()));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = stream.normal(i);
      }
      state_->write_values(tensor, 0, tensor.rows(), values.data());
    }
  }

  std::map<std::string, std::vector<std::byte>> contents() {
    std::map<std::string, std::vector<std::byte>> out;
    for (const StateTensor& tensor : state_->tensors()) {
      auto& bytes = out[tensor.name];
      bytes.resize(static_cast<size_t>(tensor.rows() * tensor.row_bytes()));
      state_->read_rows(tensor, 0, tensor.rows(), bytes.data());
    }
    return out;
  }

 private:
  void add(const char* name, std::vector<int64_t> dims, bool trained, bool head) {
    module_.graph.add_param(name, {.dtype = DType::kF32, .dims = std::move(dims)}, {}, trained, head, {});
  }
  void place(planner::Purpose purpose, Bytes bytes, size_t param, int state, int shard) {
    planner::Buffer buffer{
        .id = planner::BufferId(program_.buffers.size()), .purpose = purpose, .bytes = bytes, .offset = end_};
    buffer.param = ParamId(param);
    buffer.state = state;
    buffer.shard = shard;
    program_.buffers.push_back(buffer);
    end_ = align_up(end_ + bytes);
  }

  Module module_;
  planner::Program program_;
  Bytes end_ = 0;
  std::unique_ptr<DeviceSet> devices_ = make_cpu_devices(std::vector<int>{1});
  std::unique_ptr<BoundMemory> memory_;
  std::unique_ptr<TrainState> state_;
};

class CheckpointDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = (fs::temp_directory_path() / ("xrun_ckpt_" + std::string(info->name()) + "_" + std::to_string(getpid())))
                .string();
    fs::remove_all(root_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, ignored);
    fs::remove_all(root_, ignored);
  }
  CheckpointOptions options(std::string digest = "math") {
    return {.directory = root_,
            .math_digest = std::move(digest),
            .isa = "avx2",
            .seed = 7,
            .classes = {{"label", true, {"一", "\"two\""}}, {"place", false, {}}},
            .version = "0.1.0",
            .epoch_samples = 1000,
            .model = {.files = {{"/w/m.xgraph", "xgraph 1\n"}}, .options = {{"file", "/w/m.xgraph"}}},
            .range_bytes = 96 * 64};
  }
  std::unique_ptr<CheckpointStore> store(CheckpointOptions with) {
    auto made = make_checkpoint_store(std::move(with));
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made.ok() ? std::move(made).value() : nullptr;
  }
  std::unique_ptr<CheckpointStore> store() { return store(options()); }
  static Status load(const std::string& path, TrainState& state, bool optimizer = false) {
    XRUN_ASSIGN(const CheckpointInfo info, open_checkpoint(path));
    return load_checkpoint(info, state, optimizer);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // Returns the names of the files in the directory of the run, without the files of class names.
  std::vector<std::string> names() {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(root_)) {
      if (!entry.path().filename().string().starts_with("classes-")) {
        out.push_back(entry.path().filename().string());
      }
    }
    std::ranges::sort(out);
    return out;
  }

  std::string root_;
};

}  // namespace xrun::runtime::testing
