#include "runtime/data/readers/reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace xrun::runtime {

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

std::byte* FieldValue::set_own(DType type, std::span<const int64_t> shape, size_t scratch) {
  set_view(type, shape, {});
  const auto own = static_cast<size_t>(elements() * size_of(type));
  storage.resize(own + scratch);
  bytes = std::span(storage).first(own);
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
