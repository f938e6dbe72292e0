// Directories, pictures and archives for the tests of readers.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <png.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "tests/runtime/data/data_support.h"

namespace xrun::runtime::testing {

// A fixture with a directory for each test, which is removed at the end of the test.
class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() /
            ("xrun_data_" + std::string(info->name()) + "_" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::permissions(root_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(root_, ignored);
  }
  std::string write(const std::string& name, std::string_view bytes) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return (root_ / name).string();
  }
  std::filesystem::path root_;
};

// Returns a grey PNG file whose pixels all have the value `value`.
inline std::string png(int width, int height, uint8_t value) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_GRAY;
  const std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height), value);
  std::string out(4096 + pixels.size() / 100, '\0');
  png_alloc_size_t size = out.size();
  EXPECT_NE(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  out.resize(size);
  return out;
}
inline std::string png(int side, uint8_t value) { return png(side, side, value); }

inline void write_zip(const std::string& path, const std::vector<std::pair<std::string, std::string>>& files) {
  archive* a = archive_write_new();
  archive_write_set_format_zip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(a, entry);
    archive_write_data(a, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_free(a);
}

inline SourceSpec folder(std::vector<std::string> paths, std::string match = "*", std::string directory = "") {
  return source("train", "folder", {{"paths", std::move(paths)}, {"match", std::move(match)}}, std::move(directory));
}

// Returns the text of a model of `classes` classes over grey pictures of 4 x 4 in the folders `train` and `test`.
inline std::string folder_model(int classes) {
  const std::string count = std::to_string(classes);
  return R"(xgraph 1
model m {
  input x: f32[N, 1, 4, 4]
  logits = x -> flatten -> linear()" +
         count + R"()
  output logits
}
data d {
  source train = folder(["train"])
  source test  = folder(["test"])
  x     = file -> decode(4, channels=1) -> scale(1 / 255)
  label = label -> as_index()" +
         count + R"()
}
train t {
  batch     = 4
  norm_rows = 1
  epochs    = 1
  loss      = softmax_ce(logits, label)
  metrics   = [accuracy(logits, label)]
  optimizer = sgd
  lr        = 0.01
}
)";
}

inline int64_t label_of(const Reader& reader, int64_t sample) {
  FieldValue value;
  EXPECT_TRUE(reader.read(sample, reader.find_field("label"), value).ok());
  if (value.dtype == DType::kI64) {
    return *reinterpret_cast<const int64_t*>(value.bytes.data());
  }
  return *reinterpret_cast<const int32_t*>(value.bytes.data());
}

}  // namespace xrun::runtime::testing
