// The file begins with \x93NUMPY, major and minor version, and the length of the dict: u16 in version 1, u32 in 2
// and 3.
//   dict  = "{" [ entry { "," entry } [","] ] "}"
//   entry = "'descr'" ":" text | "'fortran_order'" ":" ("True" | "False") | "'shape'" ":" tuple
//   tuple = "(" [ number { "," number } [","] ] ")"
// Python 2 wrote an L after numbers. A descr that is a list or a tuple belongs to a structured array.
#include "runtime/formats/tensors/npy_header.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

Error broken(std::string_view name, const std::string& why) {
  return content_error("XG0412", {"{}: {}", name, why}, "write the array again with numpy.save");
}

Error unread(std::string_view name, std::string_view what, std::string_view help) {
  return content_error("XG0412", {"{}: {}", name, what}, std::string(help));
}

// The entries of the dict.
struct Entries {
  std::optional<std::string> descr;
  bool is_structured = false;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the dict. The functions return false at the first fault.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : text_(text) {}

  bool parse(Entries& to) {
    if (!take('{')) {
      return false;
    }
    while (!take('}')) {
      if (!entry(to)) {
        return false;
      }
      if (to.is_structured) {
        return true;
      }
      if (!take(',')) {
        return take('}') && at_end();
      }
    }
    return at_end();
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && std::string_view(" \t\r\n").find(text_[0]) != std::string_view::npos) {
      text_.remove_prefix(1);
    }
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }
  bool take(char c) {
    skip_spaces();
    const bool found = !text_.empty() && text_[0] == c;
    text_.remove_prefix(found ? 1 : 0);
    return found;
  }
  bool take(std::string_view word) {
    skip_spaces();
    const bool found = text_.starts_with(word);
    text_.remove_prefix(found ? word.size() : 0);
    return found;
  }
  // A text in quotes. No name or type has an escape or a line break.
  std::optional<std::string> quoted() {
    skip_spaces();
    const char quote = text_.empty() ? '\0' : text_[0];
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string_view::npos;
    const std::string_view inner = end == std::string_view::npos ? "\\" : text_.substr(1, end - 1);
    if (inner.find_first_of("\\\n") != std::string_view::npos) {
      return std::nullopt;
    }
    text_.remove_prefix(end + 1);
    return std::string(inner);
  }
  bool entry(Entries& to) {
    const auto key = quoted();
    if (!key || !take(':')) {
      return false;
    }
    if (*key == "descr" && !to.descr) {
      to.is_structured = take('[') || take('(');
      to.descr = to.is_structured ? "" : quoted();
      return to.descr.has_value();
    }
    if (*key == "fortran_order" && !to.fortran) {
      to.fortran = take("True");
      return *to.fortran || take("False");
    }
    if (*key == "shape" && !to.shape) {
      to.shape.emplace();
      return tuple(*to.shape);
    }
    return false;
  }
  bool tuple(std::vector<int64_t>& to) {
    if (!take('(')) {
      return false;
    }
    bool ends_with_comma = true;
    while (!take(')')) {
      int64_t value = 0;
      skip_spaces();
      const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (!ends_with_comma || fault != std::errc() || value < 0) {
        return false;
      }
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      if (text_.starts_with('L')) {
        text_.remove_prefix(1);
      }
      to.push_back(value);
      ends_with_comma = take(',');
    }
    return to.size() != 1 || ends_with_comma;  // (3) is a number, not a tuple
  }

  std::string_view text_;
};

std::optional<NpyKind> kind_of(std::string_view dtype) {
  return dtype == "bf16"     ? std::optional(NpyKind::kBf16)
         : dtype == "f8e4m3" ? std::optional(NpyKind::kF8E4M3)
         : dtype == "f8e5m2" ? std::optional(NpyKind::kF8E5M2)
                             : std::nullopt;
}

// Sets the type of an array whose type has no meaning in NumPy: the small floats of ml_dtypes.
Status take_dtype(std::string_view descr, Bytes bytes, std::string_view dtype, std::string_view name,
                  NpyHeader& header) {
  const auto kind = kind_of(dtype);
  if (!kind) {
    return content_error(
        "XG0413", {"{} has elements of {} byte{} without a type ({})", name, bytes, bytes == 1 ? "" : "s", descr},
        bytes == 2 ? Text("if they are bf16 of ml_dtypes, write dtype=\"bf16\"")
                   : Text("if they are 8-bit floats of ml_dtypes, write dtype=\"f8e4m3\" or dtype=\"f8e5m2\"; store "
                          "other types as float16"));
  }
  header.kind = *kind;
  header.item_bytes = bytes;
  if (bytes != (*kind == NpyKind::kBf16 ? 2 : 1) || (descr[1] == 'f' && *kind != NpyKind::kF8E5M2)) {
    return content_error("XG0413", {"`dtype` is {}, but the elements of {} are {}", dtype, name, descr},
                         bytes == 2 ? Text("write dtype=\"bf16\"") : Text("write the type that the writer had"));
  }
  return {};
}

Status read_type(std::string_view descr, std::string_view dtype, std::string_view name, NpyHeader& header) {
  const std::string_view order = descr.substr(0, std::min<size_t>(descr.size(), 1));
  if (descr == "|O" || descr == "O") {
    return unread(name, "holds Python objects, which are read only by running code (pickle)",
                  "write an array of numbers: a = numpy.load(path, allow_pickle=True); numpy.save(path, "
                  "numpy.stack(list(a)))");
  }
  int64_t size = 0;
  const char* const end = descr.data() + descr.size();
  const bool is_typed = descr.size() >= 3 && std::string_view("<>|").find(order) != std::string_view::npos;
  const auto parsed = is_typed ? std::from_chars(descr.data() + 2, end, size) : std::from_chars_result{};
  if (!is_typed || (parsed.ec == std::errc() && parsed.ptr != end && descr[1] != 'M' && descr[1] != 'm')) {
    return broken(name, fmt::format("the unknown type \"{}\" in its header", descr));
  }
  header.is_big_endian = order == ">";
  const char letter = descr[1];
  if ((letter == 'V' && (size == 1 || size == 2)) || (letter == 'f' && size == 1)) {
    return take_dtype(descr, size, dtype, name, header);
  }
  const bool is_number = size == 1 || size == 2 || size == 4 || size == 8;
  if (letter == 'b' && size == 1) {
    header.kind = NpyKind::kBool;
  } else if (letter == 'i' && is_number) {
    header.kind = NpyKind::kSigned;
  } else if (letter == 'u' && is_number) {
    header.kind = NpyKind::kUnsigned;
  } else if (letter == 'f' && is_number) {
    header.kind = NpyKind::kFloat;
  } else if (letter == 'U' && size >= 0 && size < INT32_MAX / 4) {
    header.kind = NpyKind::kText;
    size *= 4;
  } else if (letter == 'S' && size >= 0 && size < INT32_MAX) {
    header.kind = NpyKind::kBytes;
  } else {
    return unread(name, fmt::format("an array of the type \"{}\"", descr),
                  letter == 'M' || letter == 'm' ? "write times as numbers: a.astype(\"int64\")"
                  : letter == 'c'                ? "write real and imaginary parts as two numbers: a.view(\"float32\")"
                                                 : "write it as float32: numpy.save(path, a.astype(\"float32\"))");
  }
  if (!dtype.empty()) {
    return content_error("XG0413", {"`dtype` is {}, but the elements of {} have the type \"{}\"", dtype, name, descr},
                         "leave `dtype` out: it is for arrays whose elements have no type");
  }
  header.item_bytes = size;
  return {};
}

}  // namespace

Result<Bytes> npy_header_bytes(std::span<const std::byte> start, std::string_view name) {
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(start[i]); };
  if (start.size() < 10 || !std::ranges::equal(start.first(6), std::as_bytes(std::span(kMagic)))) {
    return content_error("XG0412", {"{}: not a .npy file, which begins with \\x93NUMPY", name},
                         "write it with numpy.save; other formats have readers of their own");
  }
  const uint32_t major = at(6);
  if (major < 1 || major > 3 || at(7) != 0) {
    return unread(name, fmt::format("version {}.{} of the .npy format", major, at(7)),
                  "write it again with numpy.save, which writes version 1.0");
  }
  const size_t prefix = major == 1 ? 10 : 12;
  if (start.size() < prefix) {
    return broken(name, "cut short in its header");
  }
  const uint32_t length = major == 1 ? at(8) | at(9) << 8 : at(8) | at(9) << 8 | at(10) << 16 | at(11) << 24;
  if (static_cast<Bytes>(length) > kMostNpyHeader) {
    return broken(name, fmt::format("its header has {} bytes; {} are read", length, kMostNpyHeader));
  }
  return static_cast<Bytes>(prefix + length);
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes, std::string_view dtype, std::string_view name) {
  XRUN_ASSIGN(const Bytes header_bytes,
              npy_header_bytes(bytes.first(std::min(bytes.size(), static_cast<size_t>(kNpyPrefix))), name));
  if (static_cast<Bytes>(bytes.size()) < header_bytes) {
    return broken(name, fmt::format("cut short in its header: {} of {} bytes", bytes.size(), header_bytes));
  }
  const size_t prefix = bytes[6] == std::byte{1} ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + prefix,
                              static_cast<size_t>(header_bytes) - prefix);
  Entries entries;
  if (!DictParser(text).parse(entries)) {
    return broken(name, "its header is not a dict of descr, fortran_order and shape");
  }
  if (entries.is_structured) {
    return unread(name, "a structured array: its elements have several fields",
                  "write each field as an array of its own: numpy.save(path, a[\"FIELD\"])");
  }
  if (!entries.descr || !entries.fortran || !entries.shape) {
    return broken(name, "its header lacks descr, fortran_order or shape");
  }
  NpyHeader header{.header_bytes = header_bytes};
  XRUN_TRY(read_type(*entries.descr, dtype, name, header));
  header.dims = std::move(*entries.shape);
  if (header.dims.size() > kMostNpyDims) {
    return unread(name, fmt::format("an array of {} dimensions", header.dims.size()),
                  fmt::format("reshape it to at most {}: samples first", kMostNpyDims));
  }
  // A dimension of 0 counts as 1 here, so that no product of some of the dimensions overflows.
  Bytes all = std::max<Bytes>(header.item_bytes, 1);
  for (const int64_t dim : header.dims) {
    if (__builtin_mul_overflow(all, std::max<int64_t>(dim, 1), &all)) {
      return broken(name, fmt::format("its shape [{}] has too many elements", fmt::join(header.dims, ", ")));
    }
  }
  const bool is_empty = header.item_bytes == 0 || std::ranges::find(header.dims, 0) != header.dims.end();
  header.data_bytes = is_empty ? 0 : all;
  header.is_fortran = *entries.fortran && std::ranges::count_if(header.dims, [](int64_t dim) { return dim > 1; }) > 1;
  return header;
}

std::string npy_content(const NpyHeader& header) {
  const Bytes bits = 8 * header.item_bytes;
  std::string type;
  switch (header.kind) {
    case NpyKind::kBool:
      type = "bool";
      break;
    case NpyKind::kSigned:
      type = fmt::format("i{}", bits);
      break;
    case NpyKind::kUnsigned:
      type = fmt::format("u{}", bits);
      break;
    case NpyKind::kFloat:
      type = fmt::format("f{}", bits);
      break;
    case NpyKind::kBf16:
      type = "bf16";
      break;
    case NpyKind::kF8E4M3:
      type = "f8e4m3";
      break;
    case NpyKind::kF8E5M2:
      type = "f8e5m2";
      break;
    case NpyKind::kText:
    case NpyKind::kBytes:
      type = "texts";
  }
  return fmt::format("{} [{}]", type, fmt::join(header.dims, ", "));
}

}  // namespace xrun::runtime
