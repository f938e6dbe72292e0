// Checkpoints with class weights in bf16 and fp8, and runs that read them in another format.
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "graph/base/xxh128.h"
#include "runtime/formats/tensors/safetensors.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Model = testing::CheckpointModel;

constexpr int64_t kClasses = 300;
constexpr RowFormat kFormats[] = {RowFormat::kF32, RowFormat::kBf16, RowFormat::kFp8};

Model model_of(RowFormat rows, int shards = 2) { return Model(shards, kClasses, true, rows); }

std::vector<float> values_of(Model& model) {
  const StateTensor& weight = *model.state().find("id.weight");
  std::vector<float> values(static_cast<size_t>(kClasses * weight.row_elements()));
  model.state().read_values(weight, 0, kClasses, values.data());
  return values;
}

struct Stored {
  SafeTensor tensor;
  std::vector<std::byte> data;
};

class CheckpointRows : public testing::CheckpointDirectory {
 protected:
  // Saves a new checkpoint with rows in this format.
  void save(RowFormat rows) {
    fs::remove_all(root_);
    Model model = model_of(rows);
    model.fill(3);
    const auto saved = store()->save(model.state(), 7, 7);
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }

  // Changes the tensors of the first head file, and updates the digests.
  void edit(const std::function<void(std::vector<Stored>&)>& change) {
    const CheckpointInfo info = open_checkpoint(root_).value();
    Manifest manifest = info.manifest;
    for (ManifestFile& entry : manifest.files) {
      if (!entry.name.starts_with("head.id.r0000000000")) {
        continue;
      }
      const std::string path = info.path + "/" + entry.name;
      std::vector<Stored> all;
      std::map<std::string, std::string> metadata;
      {
        const auto file = SafetensorsFile::open(path);
        ASSERT_TRUE(file.ok());
        metadata = file->header().metadata;
        for (const SafeTensor& tensor : file->header().tensors) {
          all.push_back({tensor, std::vector<std::byte>(static_cast<size_t>(tensor.end - tensor.begin))});
          ASSERT_TRUE(file->read(tensor, 0, all.back().data).ok());
        }
      }
      change(all);
      std::vector<SafeTensor> tensors;
      Bytes end = 0;
      for (Stored& one : all) {
        one.tensor.begin = end;
        one.tensor.end = end += static_cast<Bytes>(one.data.size());
        tensors.push_back(one.tensor);
      }
      fs::remove(path);
      auto writer = SafetensorsWriter::create(path, tensors, metadata);
      ASSERT_TRUE(writer.ok()) << writer.error().message;
      for (const Stored& one : all) {
        ASSERT_TRUE(writer->write(one.data).ok());
      }
      ASSERT_TRUE(writer->finish().ok());
      entry.bytes = writer->bytes();
      entry.xxh3 = writer->digest();
    }
    write(info.path + "/manifest.json", print_manifest(manifest));
  }
};

Stored& find(std::vector<Stored>& all, const std::string& name) {
  const auto at = std::ranges::find(all, name, [](const Stored& one) { return one.tensor.name; });
  XRUN_CHECK(at != all.end(), "no " + name);
  return *at;
}

TEST_F(CheckpointRows, KeepTheirBitsOnAnotherNumberOfShards) {
  for (const RowFormat format : kFormats) {
    save(format);
    Model first = model_of(format);
    first.fill(3);
    Model other = model_of(format, 5);
    const Status loaded = load(root_, other.state(), true);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(other.contents(), first.contents()) << name_of(format);
  }
}

// A wider format holds the values exactly, so the result must equal rounding them to the new format directly.
TEST_F(CheckpointRows, AreWidenedExactlyAndRoundedToTheNearestInAnotherFormat) {
  for (const RowFormat stored : kFormats) {
    save(stored);
    Model source = model_of(stored);
    source.fill(3);
    for (const RowFormat format : kFormats) {
      Model expected = model_of(format);
      expected.fill(3);
      const std::vector<float> values = values_of(source);
      expected.state().write_values(*expected.state().find("id.weight"), 0, kClasses, values.data());
      Model other = model_of(format, 3);
      const Status loaded = load(root_, other.state(), true);
      ASSERT_TRUE(loaded.ok()) << loaded.error().message;
      EXPECT_EQ(values_of(other), values_of(expected)) << name_of(stored) << " as " << name_of(format);
      if (element_bytes(format) >= element_bytes(stored)) {
        EXPECT_EQ(values_of(other), values);
      }
    }
  }
}

TEST_F(CheckpointRows, AreRefusedIfEdited) {
  const auto set_scale = [](float scale) {
    return [scale](std::vector<Stored>& all) {
      reinterpret_cast<float*>(find(all, "id.weight.scale").data.data())[5] = scale;
    };
  };
  const auto set_dtype = [](const std::string& name, const std::string& dtype, double bytes) {
    return [=](std::vector<Stored>& all) {
      Stored& one = find(all, name);
      one.tensor.dtype = dtype;
      one.data.resize(static_cast<size_t>(static_cast<double>(one.data.size()) * bytes));
    };
  };
  struct Edit {
    std::function<void(std::vector<Stored>&)> change;
    std::string code;
    std::string says;
  };
  const std::vector<Edit> edits{
      {set_scale(0), "XG0710", "has a scale of `id.weight` that is not a positive number"},
      {set_scale(-1), "XG0710", "not a positive number"},
      {set_scale(std::numeric_limits<float>::quiet_NaN()), "XG0710", "not a positive number"},
      {set_scale(std::numeric_limits<float>::infinity()), "XG0710", "not a positive number"},
      {[](std::vector<Stored>& all) {
         std::erase_if(all, [](auto& one) { return one.tensor.name.ends_with("scale"); });
       },
       "XG0710", "of `id.weight.scale` twice or not at all"},
      {[](std::vector<Stored>& all) {
         Stored& scales = find(all, "id.weight.scale");
         scales.tensor.shape[0] -= 1;
         scales.data.resize(scales.data.size() - 4);
       },
       "XG0710", "rows of `id.weight.scale`"},
      {set_dtype("id.weight.scale", "BF16", 0.5), "XG0702", "`id.weight.scale` is f32[300]"},
      {set_dtype("id.weight", "F8_E5M2", 1), "XG0702", "`id.weight` is f8e4m3[300, 8]"},
      {set_dtype("id.weight", "BF16", 2), "XG0710", "rows of `id.weight` in two formats, BF16 and F8_E4M3"},
      {set_dtype("id.weight.m", "BF16", 0.5), "XG0702", "`id.weight.m` is f32[300, 8]"},
      {[](std::vector<Stored>& all) {
         find(all, "id.weight").tensor.shape[1] = 4;
         find(all, "id.weight").data.resize(find(all, "id.weight").data.size() / 2);
       },
       "XG0702", "`id.weight` is f8e4m3[300, 8]"},
  };
  for (const Edit& one : edits) {
    save(RowFormat::kFp8);
    edit(one.change);
    for (const RowFormat format : {RowFormat::kFp8, RowFormat::kF32}) {
      Model model = model_of(format);
      const Status loaded = load(root_, model.state(), true);
      ASSERT_FALSE(loaded.ok()) << one.says;
      EXPECT_EQ(loaded.error().code, one.code) << loaded.error().message;
      if (format == RowFormat::kFp8) {
        EXPECT_THAT(loaded.error().message, HasSubstr(one.says));
      }
    }
  }
}

// A diverged run is not saved: NaN is found in any format.
TEST_F(CheckpointRows, AreNotSavedIfNotFinite) {
  for (const RowFormat format : kFormats) {
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Model model = model_of(format);
      model.fill(3);
      const StateTensor& weight = *model.state().find("id.weight");
      std::vector<float> row(static_cast<size_t>(weight.row_elements()), 1.0F);
      row[3] = value;
      model.state().write_values(weight, 250, 251, row.data());
      const auto saved = store()->save(model.state(), 7, 7);
      ASSERT_FALSE(saved.ok());
      EXPECT_EQ(saved.error().code, "XG0810") << name_of(format);
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
