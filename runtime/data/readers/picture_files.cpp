#include "runtime/data/readers/picture_files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>

#include "graph/base/errors.h"
#include "runtime/data/pictures/picture.h"
#include "runtime/data/pictures/resizer.h"
#include "runtime/data/readers/directory_walk.h"
#include "runtime/data/readers/left_out.h"
#include "runtime/data/readers/natural_order.h"
#include "runtime/formats/files.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kLargest = kMostPixels * 4;  // largest encoded file; no picture within kMostPixels needs more

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

class PictureFiles : public Reader {
 public:
  PictureFiles(PictureList pictures, const Field& like)
      : paths_(std::move(pictures.paths)), left_out_(std::move(pictures.left_out)) {
    fields_.push_back(like);
  }

  int64_t samples() const override { return static_cast<int64_t>(paths_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }

  Status read(int64_t sample, int, FieldValue& out) const override {
    const std::string& path = paths_[static_cast<size_t>(sample)];
    XRUN_ASSIGN(const std::vector<std::byte> file, read_file(path, kLargest));
    if (fields_[0].encoded) {
      const int64_t size[] = {static_cast<int64_t>(file.size())};
      std::ranges::copy(file, out.set_own(DType::kU8, size));
      return {};
    }
    Status status = read_pixels(file, out);
    if (!status.ok()) {
      Error error = std::move(status).error();
      error.message = path + ": " + error.message;
      return error;
    }
    return {};
  }

  std::string class_name(int64_t) const override { return {}; }
  std::string sample_name(int64_t sample) const override { return paths_[static_cast<size_t>(sample)]; }
  std::string describe() const override { return std::to_string(samples()) + " pictures"; }
  std::vector<Error> warnings() const override { return left_out_.warnings(); }

 private:
  Status read_pixels(const std::vector<std::byte>& file, FieldValue& out) const {
    const std::vector<int64_t>& dims = fields_[0].type.dims;
    const auto channels = static_cast<int>(dims[1]);
    std::vector<uint8_t> decoded;
    XRUN_ASSIGN(const PictureSize size, decode_picture(file, {.channels = channels}, decoded));
    const PictureBox whole{.height = static_cast<double>(size.height), .width = static_cast<double>(size.width)};
    Picture scaled;
    const int height = dims[2] > 0 ? static_cast<int>(dims[2]) : size.height;
    const int width = dims[3] > 0 ? static_cast<int>(dims[3]) : size.width;
    scaled.reshape(channels, height, width);
    Resizer().resize(decoded.data(), size.width, whole, {}, scaled);
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
  FolderLeftOut left_out_;
  std::vector<Field> fields_;
};

// Whether a file has the header of a picture; false if it cannot be read.
bool begins_as_picture(const std::string& path) {
  constexpr Bytes kStart = kMiB;
  const auto start = read_file(path, kStart);
  return start.ok() && read_picture_header(*start).ok();
}

}  // namespace

bool is_hidden_file(std::string_view path) { return base_of(path).starts_with('.'); }

bool is_picture_name(std::string_view path) { return !is_hidden_file(path) && has_picture_extension(path); }

Result<PictureList> list_pictures(const std::vector<std::string>& paths) {
  PictureList list;
  std::vector<std::string>& files = list.paths;
  for (const std::string& path : paths) {
    std::error_code ignored;  // opening the file reports the error if it cannot be examined
    if (!std::filesystem::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const std::filesystem::path root(path);
    const auto first = std::ssize(files);
    const auto visit = [&](std::string_view name) -> Status {
      std::string file = (root / name).native();
      const bool has_extension = base_of(name).find('.') != std::string_view::npos;
      if (is_picture_name(name) || (!has_extension && begins_as_picture(file))) {
        files.push_back(std::move(file));
      } else if (!is_hidden_file(name)) {
        list.left_out.others.add(std::move(file));
      }
      return {};
    };
    const auto enters = [&](std::string_view name) {
      const bool tool = is_tool_directory(base_of(name));
      if (tool) {
        list.left_out.tools.add((root / name).native());
      }
      return !tool;
    };
    XRUN_TRY(walk_directory(path, nullptr, visit, enters));
    if (std::ssize(files) == first) {
      Error error = content_error("XG0406", {"there are no pictures below {}", path},
                                  {"pictures are {} files, by the extensions of their names", picture_formats()});
      for (const Error& left : list.left_out.warnings()) {
        error.notes.push_back(left.message);
      }
      return error;
    }
    std::sort(files.begin() + first, files.end(), comes_before);
  }
  return list;
}

Result<std::unique_ptr<Reader>> open_picture_files(PictureList pictures, const Field& like) {
  const bool pixels = like.type.rank() == 4 && like.type.dtype == DType::kU8;
  if (!like.encoded && !pixels) {
    return content_error("XG0412", "the model's input comes from `" + like.name + "`, which holds no pictures",
                         "name rows of a source instead: --source NAME --rows a..b");
  }
  for (const std::string& path : pictures.paths) {
    XRUN_ASSIGN([[maybe_unused]] const auto start, read_file(path, 1));
    std::error_code error;
    if (static_cast<Bytes>(std::filesystem::file_size(path, error)) > kLargest && !error) {
      return content_error("XG0412", path + ": a picture of more than " + format_bytes(kLargest),
                           "make it smaller first");
    }
  }
  return std::unique_ptr<Reader>(std::make_unique<PictureFiles>(std::move(pictures), like));
}

}  // namespace xrun::runtime
