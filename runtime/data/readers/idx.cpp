// Tests: tests/runtime/data/readers/reader_test.cpp, tests/runtime/formats/tensors/idx_test.cpp
#include "runtime/data/readers/idx.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/label_numbers.h"
#include "runtime/formats/files.h"
#include "runtime/formats/tensors/idx.h"

namespace xrun::runtime {
namespace {

constexpr int kBytes = 0x08;        // type code of u8
constexpr int kLastInteger = 0x0C;  // i32; codes above it are real numbers

// The error for a valid IDX file with other contents than are wanted.
Error wrong_content(const std::string& path, const IdxHeader& header, std::string_view what, std::string_view wanted,
                    const std::string& help) {
  return content_error("XG0412", {"{} holds {}, but {} must be {}", path, idx_content(header), what, wanted}, help);
}

struct IdxFile {
  IdxHeader header;
  std::vector<std::byte> bytes;  // contents of the whole file
  std::span<const std::byte> data() const { return std::span(bytes).subspan(static_cast<size_t>(header.header_bytes)); }
};

Result<IdxFile> read_header(const std::string& path, StopFlag) {
  XRUN_ASSIGN(const auto start, read_file(path, kMostIdxHeader));
  IdxFile file;
  XRUN_ASSIGN(file.header, parse_idx_header(start, path));
  return file;
}

// Reads a file. The header is read first, since it determines the size up to which a compressed file is unpacked.
Result<IdxFile> read_idx(const std::string& path, StopFlag stop) {
  XRUN_ASSIGN(IdxFile file, read_header(path, stop));
  const Bytes want = file.header.header_bytes + file.header.data_bytes;
  XRUN_ASSIGN(file.bytes, read_file(path, want + 1, stop));
  const Bytes got = std::ssize(file.bytes);
  if (got != want) {
    return broken_idx(path, got < want ? fmt::format("holds {} bytes less than its header says", want - got)
                                       : std::string("holds more bytes than its header says"));
  }
  return file;
}

class IdxReader final : public Reader {
 public:
  // `gap`: number of classes below the largest label without samples, if a warning is to report it; otherwise 0.
  IdxReader(IdxFile images, std::vector<int32_t> labels, int64_t classes, int64_t gap, std::string path)
      : images_(std::move(images)), labels_(std::move(labels)), classes_(classes), gap_(gap), path_(std::move(path)) {
    const auto& dims = images_.header.dims;
    shape_ = {1, dims[1], dims[2]};
    const DType dtype = images_.header.type == kBytes ? DType::kU8 : DType::kF32;
    fields_ = {{"pixels", {.dtype = dtype, .dims = {kBatch, 1, dims[1], dims[2]}}},
               {"label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = classes}}};
  }

  int64_t samples() const override { return images_.header.dims[0]; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return classes_; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      out.set_integer(DType::kI32, labels_[static_cast<size_t>(sample)]);
      return {};
    }
    const auto pixels = static_cast<size_t>(shape_[1] * shape_[2]);
    const size_t first = static_cast<size_t>(sample) * pixels;
    if (images_.header.type == kBytes) {
      out.set_view(DType::kU8, shape_, images_.data().subspan(first, pixels));
      return {};
    }
    auto* to = reinterpret_cast<float*>(out.set_own(DType::kF32, shape_));
    for (size_t i = 0; i < pixels; ++i) {
      to[i] = static_cast<float>(idx_number(images_.header.type, images_.data(), first + i));
      if (!std::isfinite(to[i])) {
        return content_error("XG0412", {"pixel {} is {}, which is not a finite f32", i, to[i]},
                             "replace the value, or raise `max_bad`");
      }
    }
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }  // labels are numbers
  std::string sample_name(int64_t sample) const override { return fmt::format("picture {} of {}", sample, path_); }
  std::string describe() const override {
    const std::string content = idx_content(images_.header);
    return fmt::format("idx: {} of {}x{}{}, {}", counted(samples(), "image"), shape_[1], shape_[2],
                       images_.header.type == kBytes ? "" : " " + content.substr(0, content.find(' ')),
                       counted(classes_, "class"));
  }
  Bytes memory() const override {
    return images_.header.header_bytes + images_.header.data_bytes +
           static_cast<Bytes>(labels_.size() * sizeof(int32_t));
  }
  std::vector<Error> warnings() const override { return gap_warnings(classes_, gap_); }

 private:
  IdxFile images_;
  std::vector<int32_t> labels_;
  int64_t classes_;
  int64_t gap_;
  std::string path_;
  std::array<int64_t, 3> shape_{};
  std::vector<Field> fields_;
};

Result<std::vector<int32_t>> labels_of(const IdxFile& file, const std::string& path) {
  std::vector<int32_t> labels(static_cast<size_t>(file.header.dims[0]));
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(idx_number(file.header.type, file.data(), i));
    if (labels[i] < 0) {
      return broken_idx(path, fmt::format("label {} is {}: labels count from 0", i, labels[i]));
    }
  }
  return labels;
}

// Opens the pair of files. `read_images` reads the pictures: the whole file, or only its header.
Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, StopFlag stop,
                                          Result<IdxFile> (*read_images)(const std::string&, StopFlag)) {
  const std::string images_path = resolve_path(spec.directory, spec.reader.args.text("images"));
  const std::string labels_path = resolve_path(spec.directory, spec.reader.args.text("labels"));
  XRUN_ASSIGN(IdxFile images, read_images(images_path, stop));
  if (images.header.dims.size() != 3) {
    return wrong_content(images_path, images.header, "pictures", "[samples, height, width]",
                         images.header.dims.size() == 1 ? "`images` and `labels` may be swapped: labels have one "
                                                          "dimension"
                                                        : "write one channel as [samples, height, width]; colour "
                                                          "pictures are read by `folder`, rows of numbers by `csv`");
  }
  // Sizes of 0 are rejected, since other code takes a size of 0 as unknown.
  if (images.header.dims[1] < 1 || images.header.dims[2] < 1 || images.header.dims[1] > 16'384 ||
      images.header.dims[2] > 16'384) {
    return broken_idx(images_path, fmt::format("pictures of {} x {}; sides must be 1 to 16 384", images.header.dims[1],
                                               images.header.dims[2]));
  }
  XRUN_ASSIGN(const IdxFile labels, read_idx(labels_path, stop));
  if (labels.header.dims.size() != 1 || labels.header.type > kLastInteger) {
    return wrong_content(labels_path, labels.header, "labels", "whole numbers [samples]",
                         labels.header.dims.size() == 1
                             ? "write them as u8, i8, i16 or i32"
                             : "name the file of the labels: labels=\"...-labels-idx1-ubyte\"");
  }
  if (labels.header.dims[0] != images.header.dims[0]) {
    return broken_idx(labels_path, fmt::format("{} labels for {} pictures in {}", labels.header.dims[0],
                                               images.header.dims[0], images_path));
  }
  XRUN_ASSIGN(auto numbers, labels_of(labels, labels_path));
  XRUN_ASSIGN(const int64_t classes, count_label_classes(spec.reader.args, numbers, labels_path));
  const bool told = spec.name == "train" && !spec.reader.args.has("classes");
  const int64_t gap = told ? count_label_gap(numbers, classes) : 0;
  return std::unique_ptr<Reader>(
      std::make_unique<IdxReader>(std::move(images), std::move(numbers), classes, gap, images_path));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_idx(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, read_idx);
}

Result<std::unique_ptr<Reader>> open_idx_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, read_header);
}

}  // namespace xrun::runtime
