// Files of weights in tests: their tensors as text, and errors.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "runtime/interchange/weights/weight_file.h"
#include "tests/support/command.h"

namespace xrun::runtime::testing {

// The files that the formats' own writers have written (README.md there).
inline const std::string kWeights = XRUN_SOURCE_DIR "/tests/runtime/interchange/weights/files/";

inline std::unique_ptr<WeightFile> open_weights(const std::string& path) {
  auto opened = open_weight_file(path);
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return opened.ok() ? std::move(opened).value() : nullptr;
}

inline std::vector<float> values_of(const WeightFile& file, size_t index) {
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].elements()));
  const Status read = file.read(index, 0, std::ssize(values), values.data());
  EXPECT_TRUE(read.ok()) << read.error().message;
  return values;
}

// The values of the tensor `name`; fails if there is none.
inline std::vector<float> values_of(const WeightFile& file, const std::string& name) {
  const auto found = std::ranges::find(file.tensors(), name, &WeightTensor::name);
  EXPECT_NE(found, file.tensors().end()) << name;
  return found == file.tensors().end() ? std::vector<float>()
                                       : values_of(file, static_cast<size_t>(found - file.tensors().begin()));
}

// A line for each tensor: "conv.weight torch.float32 [2, 3] 0 1 2 3 4 5".
inline std::string show(const WeightFile& file) {
  std::string text;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const WeightTensor& tensor = file.tensors()[i];
    text += fmt::format("{} {} [{}] {}\n", tensor.name, tensor.dtype, fmt::join(tensor.dims, ", "),
                        fmt::join(values_of(file, i), " "));
  }
  return text;
}

// Code, message and help of the error that a file gives when it is opened, or when one of its tensors is read.
inline std::string error_of(const std::string& path) {
  const auto opened = open_weight_file(path);
  const auto text = [](const Error& error) { return fmt::format("{}: {}; {}", error.code, error.message, error.help); };
  if (!opened.ok()) {
    return text(opened.error());
  }
  const WeightFile& file = *opened.value();
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    std::vector<float> values(static_cast<size_t>(file.tensors()[i].elements()));
    if (const Status read = file.read(i, 0, std::ssize(values), values.data()); !read.ok()) {
      return text(read.error());
    }
  }
  return "no error";
}

// The bytes of a test file, with `from` replaced by `to`, which has as many bytes. Every occurrence is replaced.
inline std::string changed(const std::string& file, const std::string& from, const std::string& to) {
  std::string bytes = xrun::testing::read_file(kWeights + file);
  EXPECT_EQ(from.size(), to.size());
  int count = 0;
  for (size_t at = 0; (at = bytes.find(from, at)) != std::string::npos; at += to.size()) {
    bytes.replace(at, from.size(), to);
    ++count;
  }
  EXPECT_GT(count, 0) << from << " is not in " << file;
  return bytes;
}

}  // namespace xrun::runtime::testing
