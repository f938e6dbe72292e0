#include "runtime/data/picture_files.h"

#include <algorithm>
#include <cmath>

#include "graph/base/errors.h"
#include "runtime/data/picture.h"
#include "runtime/formats/decode.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

class PictureFiles : public Reader {
 public:
  PictureFiles(std::vector<std::string> paths, std::vector<std::vector<std::byte>> files, const Field& like)
      : paths_(std::move(paths)), files_(std::move(files)) {
    fields_.push_back(like);
    fields_.push_back({.name = "label", .type = {DType::kI32, {kBatch}, false, 1}});
  }

  int64_t samples() const override { return static_cast<int64_t>(paths_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      out.set_integer(DType::kI32, 0);
      return {};
    }
    const auto& file = files_[static_cast<size_t>(sample)];
    if (fields_[0].encoded) {
      const int64_t size[] = {static_cast<int64_t>(file.size())};
      out.set_view(DType::kU8, size, file);
      return {};
    }
    const auto status = read_pixels(file, out);
    if (!status.ok()) {
      Error error = status.error();
      error.message = paths_[static_cast<size_t>(sample)] + ": " + error.message;
      return error;
    }
    return {};
  }

  std::string class_name(int64_t) const override { return {}; }
  std::string sample_name(int64_t sample) const override { return paths_[static_cast<size_t>(sample)]; }
  std::string describe() const override { return std::to_string(samples()) + " pictures"; }

 private:
  Status read_pixels(const std::vector<std::byte>& file, FieldValue& out) const {
    const std::vector<int64_t>& dims = fields_[0].type.dims;
    const auto channels = static_cast<int>(dims[1]);
    std::vector<uint8_t> decoded;
    XRUN_ASSIGN(const PictureSize size, decode_picture(file, {.channels = channels}, decoded));
    Picture picture;
    picture.reshape(channels, size.height, size.width);
    load_interleaved(decoded.data(), picture);
    Picture scaled;
    const int height = dims[2] > 0 ? static_cast<int>(dims[2]) : size.height;
    const int width = dims[3] > 0 ? static_cast<int>(dims[3]) : size.width;
    scaled.reshape(channels, height, width);
    Resizer().resize(picture, scaled);
    const int64_t shape[] = {channels, height, width};
    auto* pixels = reinterpret_cast<uint8_t*>(out.set_own(DType::kU8, shape));
    for (int c = 0; c < channels; ++c) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          *pixels++ = static_cast<uint8_t>(std::lround(std::clamp(scaled.row(c, y)[x], 0.0f, 255.0f)));
        }
      }
    }
    return {};
  }

  std::vector<std::string> paths_;
  std::vector<std::vector<std::byte>> files_;
  std::vector<Field> fields_;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_picture_files(std::vector<std::string> paths, const Field& like) {
  const bool pixels = like.type.rank() == 4 && like.type.dtype == DType::kU8;
  if (!like.encoded && !pixels) {
    return content_error("XG0412", "the model's input comes from `" + like.name + "`, which holds no pictures",
                         "name rows of a source instead: --source NAME --rows a..b");
  }
  std::vector<std::vector<std::byte>> files;
  for (const std::string& path : paths) {
    constexpr Bytes kLargest = kMostPixels * 4;  // encoded; no picture that is decoded needs more
    XRUN_ASSIGN(auto bytes, read_file(path, kLargest + 1));
    if (static_cast<Bytes>(bytes.size()) > kLargest) {
      return content_error("XG0412", path + ": a picture of more than " + format_bytes(kLargest),
                           "make it smaller first");
    }
    files.push_back(std::move(bytes));
  }
  return std::unique_ptr<Reader>(std::make_unique<PictureFiles>(std::move(paths), std::move(files), like));
}

}  // namespace xrun::runtime
