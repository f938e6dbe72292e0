// Tests: tests/runtime/data/readers/list_test.cpp
#include "runtime/data/readers/base64_list.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/listed_reader.h"
#include "runtime/formats/base64.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"
#include "runtime/formats/pictures/decode.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

// A line as its two cells. PLSC's tool reads lines with the label first, and writes them with the label last.
struct Line {
  std::string_view base64;
  std::string_view label;
};

std::optional<Line> split(std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || line.find('\t', tab + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view first = line.substr(0, tab);
  const std::string_view second = line.substr(tab + 1);
  return first.size() > second.size() ? Line{first, second} : Line{second, first};
}

struct Part {
  std::string path;
  std::unique_ptr<OpenFile> file;
};

struct Place {
  Bytes offset = 0;   // position of the base64 in its part
  uint32_t size = 0;  // characters of base64
  uint32_t part = 0;
};

class Base64Reader final : public ListedReader {
 public:
  Base64Reader(ListLabels labels, std::vector<Part> parts, std::vector<Place> places)
      : ListedReader(std::move(labels)), parts_(std::move(parts)), places_(std::move(places)) {}

  std::string sample_name(int64_t sample) const override {
    const Place& place = places_[static_cast<size_t>(sample)];
    return fmt::format("the line at byte {} of {}", place.offset, parts_[place.part].path);
  }
  std::string describe() const override {
    return fmt::format("list: {} in base64, {}, {}", counted(samples(), "image"), counted(classes(), "class"),
                       counted(std::ssize(parts_), "part"));
  }
  Bytes memory() const override { return label_memory() + static_cast<Bytes>(places_.capacity() * sizeof(Place)); }

 private:
  Status read_picture(int64_t sample, FieldValue& out) const override {
    const Place& place = places_[static_cast<size_t>(sample)];
    const Part& part = parts_[place.part];
    const std::array<int64_t, 1> text_shape{int64_t{place.size}};
    std::byte* text = out.set_own(DType::kU8, text_shape);
    for (size_t done = 0; done < place.size;) {
      const ssize_t got =
          ::pread(part.file->get(), text + done, place.size - done, place.offset + static_cast<Bytes>(done));
      if (got < 0 && errno != EINTR) {
        return file_error(part.path, errno);
      }
      if (got == 0) {
        return broken_sample("the file became shorter");
      }
      done += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    const auto decoded = decode_base64({text, place.size});
    if (!decoded) {
      return broken_sample("the picture is not base64");
    }
    const std::array<int64_t, 1> shape{static_cast<int64_t>(*decoded)};
    out.set_view(DType::kU8, shape, {text, *decoded});
    return {};
  }

  std::vector<Part> parts_;
  std::vector<Place> places_;
};

}  // namespace

bool is_base64_line(std::string_view line) {
  constexpr size_t kStart = 1 << 20;  // a multiple of 4
  const auto cells = split(line);
  if (!cells) {
    return false;
  }
  const std::string_view start = cells->base64.substr(0, kStart);
  std::vector<std::byte> bytes(start.size());
  std::ranges::transform(start, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  const auto decoded = decode_base64(bytes);
  return decoded && read_picture_header(std::span(bytes).first(*decoded)).ok();
}

Result<std::unique_ptr<Reader>> open_base64_parts(const std::vector<std::string>& paths, const Attrs& args,
                                                  StopFlag stop) {
  std::vector<Part> parts;
  std::vector<Place> places;
  LabelTexts labels;
  for (const std::string& path : paths) {
    XRUN_ASSIGN(const int opened, open_ordinary(path));
    parts.push_back({path, std::make_unique<OpenFile>(opened)});
    XRUN_TRY(visit_lines(path, kLongestBase64Line, stop, [&](const TextLine& line) -> Status {
      const auto cells = split(line.text);
      if (!cells || cells->label.empty()) {
        return content_error("XG0412", {"{}:{}: not a picture in base64, a tab and a label", path, line.number},
                             "write the file again with PLSC's tool");
      }
      places.push_back({.offset = line.offset + (cells->base64.data() - line.text.data()),
                        .size = static_cast<uint32_t>(cells->base64.size()),
                        .part = static_cast<uint32_t>(parts.size() - 1)});
      labels.add(cells->label, path, line.number);
      return {};
    }));
  }
  XRUN_ASSIGN(ListLabels resolved, labels.resolve(args, paths.front()));
  places.shrink_to_fit();
  return std::unique_ptr<Reader>(
      std::make_unique<Base64Reader>(std::move(resolved), std::move(parts), std::move(places)));
}

}  // namespace xrun::runtime
