// What the readers of lists have in common: labels with or without names, and the fields.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "runtime/data/readers/label_texts.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

class ListedReader : public Reader {
 public:
  explicit ListedReader(ListLabels labels) : labels_(std::move(labels)) {
    const TensorType bytes{.dtype = DType::kU8, .dims = {kBatch, 0}};
    fields_ = {{"file", bytes, true},
               {"label", {.dtype = DType::kI64, .dims = {kBatch}, .classes = labels_.classes}},
               {"name", bytes}};
  }

  int64_t samples() const override { return static_cast<int64_t>(labels_.labels.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return labels_.classes; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 0) {
      return read_picture(sample, out);
    }
    if (field == 1) {
      out.set_integer(DType::kI64, labels_.labels[static_cast<size_t>(sample)]);
      return {};
    }
    const std::string name = sample_name(sample);
    const std::array<int64_t, 1> shape{std::ssize(name)};
    std::memcpy(out.set_own(DType::kU8, shape), name.data(), name.size());
    return {};
  }
  std::string class_name(int64_t label) const override {
    return labels_.names.empty() ? "" : labels_.names[static_cast<size_t>(label)];
  }

 protected:
  virtual Status read_picture(int64_t sample, FieldValue& out) const = 0;
  Bytes label_memory() const { return static_cast<Bytes>(labels_.labels.capacity() * sizeof(int32_t)); }

 private:
  ListLabels labels_;
  std::vector<Field> fields_;
};

}  // namespace xrun::runtime
