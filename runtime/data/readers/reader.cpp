#include "runtime/data/readers/reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/data/readers/csv.h"
#include "runtime/data/readers/folder.h"
#include "runtime/data/readers/glyphs.h"
#include "runtime/data/readers/idx.h"
#include "runtime/data/readers/sku_tree.h"
#include "runtime/data/readers/synthetic.h"

namespace xrun::runtime {
namespace {

using OpenFunction = Result<std::unique_ptr<Reader>> (*)(const SourceSpec& spec, StopFlag stop);

struct Opener {
  std::string_view name;
  OpenFunction open;
  OpenFunction header = nullptr;  // null: `open` is used instead, since it is as fast
};

constexpr Opener kOpeners[] = {
    {"glyphs", open_glyphs, open_glyphs_header},
    {"idx", open_idx, open_idx_header},
    {"folder", open_folder, open_folder_header},
    {"csv", open_csv},
    {"synthetic", open_synthetic},
    {"sku_tree", open_sku_tree},
};

Result<std::unique_ptr<Reader>> open_any(const SourceSpec& spec, bool header, StopFlag stop) {
  for (const Opener& opener : kOpeners) {
    if (opener.name == spec.reader.name) {
      return header && opener.header != nullptr ? opener.header(spec, stop) : opener.open(spec, stop);
    }
  }
  return content_error("XG0410", {"the reader `{}` of source `{}` is not available yet", spec.reader.name, spec.name},
                       "this version reads glyphs, idx, folder, csv, synthetic and sku_tree sources");
}

Result<std::unique_ptr<Reader>> open_checked(const SourceSpec& spec, bool header, StopFlag stop) {
  auto reader = open_any(spec, header, stop);
  if (!reader.ok()) {
    Error error = std::move(reader).error();
    if (error.kind == ErrorKind::kInterrupted) {
      error.message = fmt::format("stopped while source `{}` was opened", spec.name);
    } else {
      error.span = spec.reader.span;
    }
    return error;
  }
  if (reader.value()->samples() == 0) {
    return content_error("XG0406", {"source `{}` has no samples ({})", spec.name, reader.value()->describe()},
                         "check the path, the range and `match`", spec.reader.span);
  }
  return reader;
}

}  // namespace

int64_t FieldValue::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    count *= dims[static_cast<size_t>(i)];
  }
  return count;
}

void FieldValue::set_view(DType type, std::span<const int64_t> shape, std::span<const std::byte> view) {
  XRUN_DCHECK(shape.size() <= dims.size(), "a field of more than four dimensions");
  dtype = type;
  rank = static_cast<int>(shape.size());
  std::ranges::copy(shape, dims.begin());
  bytes = view;
}

std::byte* FieldValue::set_own(DType type, std::span<const int64_t> shape) {
  set_view(type, shape, {});
  storage.resize(static_cast<size_t>(elements() * size_of(type)));
  bytes = storage;
  return storage.data();
}

void FieldValue::set_integer(DType type, int64_t value) {
  XRUN_DCHECK(type == DType::kI32 || type == DType::kI64, "an integer field");
  std::byte* to = set_own(type, {});
  if (type == DType::kI64) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const auto narrow = static_cast<int32_t>(value);
    std::memcpy(to, &narrow, sizeof narrow);
  }
}

int Reader::find_field(std::string_view name) const {
  const auto found = std::ranges::find(fields(), name, &Field::name);
  return found == fields().end() ? -1 : static_cast<int>(found - fields().begin());
}

Result<std::unique_ptr<Reader>> open_reader(const SourceSpec& spec, StopFlag stop) {
  return open_checked(spec, false, stop);
}

Result<std::unique_ptr<Reader>> open_header(const SourceSpec& spec) { return open_checked(spec, true, nullptr); }

std::vector<int64_t> looked_samples(int64_t samples) {
  constexpr int64_t kMost = 64;
  const int64_t count = std::min(samples, kMost);
  std::vector<int64_t> looked;
  for (int64_t i = 0; i < count; ++i) {
    looked.push_back(i * samples / count);
  }
  return looked;
}

std::string resolve_path(std::string_view directory, std::string_view path) {
  const std::filesystem::path given(path);
  return given.is_absolute() || directory.empty() ? std::string(path)
                                                  : (std::filesystem::path(directory) / given).string();
}

}  // namespace xrun::runtime
