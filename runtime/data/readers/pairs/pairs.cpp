#include "runtime/data/readers/pairs/pairs.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/pairs/pair_list.h"
#include "runtime/data/readers/pairs/pair_set.h"
#include "runtime/data/readers/pairs/templates.h"
#include "runtime/device/host.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

// The limit for the values of a pickle while it is read, for the text of a list, and for lists of templates. Sets of
// 6,000 pairs need some MB; IJB-C, with 15.7 million pairs of templates, needs 150 MB.
constexpr Bytes kMostMemory = 4 * kGiB;

// The first bytes of pickles of lists and tuples: PROTO of protocols 2 to 5, MARK and EMPTY_LIST of earlier ones.
constexpr std::string_view kPickleStarts = "\x80(]";

// The methods that do not depend on where the pictures are.
class PairsReader : public Reader {
 public:
  PairsReader(std::string path, std::vector<uint8_t> same)
      : path_(std::move(path)),
        same_(std::move(same)),
        fields_{{"jpeg", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true},
                {"same", {.dtype = DType::kBool, .dims = {kBatch}}},
                {"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true}} {}

  int64_t samples() const override { return 2 * std::ssize(same_); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }
  bool has_labels() const override { return false; }
  std::string class_name(int64_t) const override { return ""; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      *out.set_own(DType::kBool, {}) = std::byte{same_[static_cast<size_t>(sample / 2)]};
      return {};
    }
    return read_picture(static_cast<size_t>(sample), out);
  }

  std::string sample_name(int64_t sample) const override {
    return fmt::format("{} pair {}, picture {} ({})", std::filesystem::path(path_).filename().string(), sample / 2 + 1,
                       sample % 2 + 1, place_of(static_cast<size_t>(sample)));
  }
  std::string describe() const override {
    return fmt::format("pairs: {}, {} of the same person", counted(std::ssize(same_), "pair"),
                       format_count(std::ranges::count(same_, 1)));
  }
  std::vector<Error> warnings() const override {
    return warn_of_one_kind(std::ranges::count(same_, 1), std::ssize(same_));
  }
  Bytes memory() const override { return static_cast<Bytes>(same_.capacity()) + places_memory(); }

 protected:
  const std::string& path() const { return path_; }

 private:
  virtual Status read_picture(size_t sample, FieldValue& out) const = 0;
  virtual std::string place_of(size_t sample) const = 0;  // "bins[32]", or a path
  virtual Bytes places_memory() const = 0;

  std::string path_;
  std::vector<uint8_t> same_;
  std::vector<Field> fields_;
};

class PickledPairs final : public PairsReader {
 public:
  PickledPairs(std::unique_ptr<PickleInput> input, PairSet set)
      : PairsReader(input->name(), std::move(set.same)), input_(std::move(input)), pictures_(std::move(set.pictures)) {}

 private:
  Status read_picture(size_t sample, FieldValue& out) const override {
    const PickleString& place = pictures_[sample];
    if (place.size > kLargestPicture) {
      return broken_sample(
          fmt::format("has {}; a picture may have {}", format_bytes(place.size), format_bytes(kLargestPicture)));
    }
    std::array<int64_t, 1> shape{place.size};
    const std::span stored(out.set_own(DType::kU8, shape), static_cast<size_t>(place.size));
    XRUN_TRY(input_->read(place.offset, stored));
    const auto size = decode_pickle_bytes(place.coding, stored);
    if (!size) {
      return broken_sample("is not stored as a byte string");
    }
    shape[0] = static_cast<int64_t>(*size);
    out.set_own(DType::kU8, shape);
    return {};
  }
  std::string place_of(size_t sample) const override { return fmt::format("bins[{}]", sample); }
  Bytes places_memory() const override { return static_cast<Bytes>(pictures_.capacity() * sizeof(PickleString)); }

  std::unique_ptr<PickleInput> input_;
  std::vector<PickleString> pictures_;
};

class ListedPairs final : public PairsReader {
 public:
  // `list` refers to `text`.
  ListedPairs(std::string path, std::string root, std::vector<std::byte> text, PairList list)
      : PairsReader(std::move(path), std::move(list.same)),
        root_(std::move(root)),
        text_(std::move(text)),
        paths_(std::move(list.paths)) {}

 private:
  Status read_picture(size_t sample, FieldValue& out) const override {
    return read_encoded(resolve_path(root_, paths_[sample]), false, out);
  }
  std::string place_of(size_t sample) const override { return printable_line(paths_[sample]); }
  Bytes places_memory() const override {
    return static_cast<Bytes>(text_.capacity() + paths_.capacity() * sizeof(std::string_view));
  }

  std::string root_;
  std::vector<std::byte> text_;
  std::vector<std::string_view> paths_;
};

Result<std::unique_ptr<Reader>> open_list(const SourceSpec& spec, const std::string& path, Bytes most, StopFlag stop) {
  XRUN_ASSIGN(auto text, read_file(path, most + 1, stop));
  if (std::ssize(text) > most) {
    return content_error("XG0412", {"{} has more than {} of text", path, format_bytes(most)},
                         "split it into several sources");
  }
  text.shrink_to_fit();
  XRUN_ASSIGN(PairList list, parse_pair_list({reinterpret_cast<const char*>(text.data()), text.size()}, path));
  const std::string given = spec.reader.args.has("root") ? spec.reader.args.text("root") : "";
  std::string root =
      given.empty() ? std::filesystem::path(path).parent_path().string() : resolve_path(spec.directory, given);
  XRUN_TRY(check_some_exist(path, std::ssize(list.paths), [&](int64_t sample) {
    return resolve_path(root, list.paths[static_cast<size_t>(sample)]);
  }));
  return std::unique_ptr<Reader>(
      std::make_unique<ListedPairs>(path, std::move(root), std::move(text), std::move(list)));
}

}  // namespace

std::vector<Error> warn_of_one_kind(int64_t same, int64_t pairs) {
  if (pairs == 0 || (same > 0 && same < pairs)) {
    return {};
  }
  const std::string all = pairs == 1 ? "the only pair shows" : fmt::format("all {} pairs show", pairs);
  return {content_error("XG0443", {"{} {}", all, same == 0 ? "different persons" : "the same person"},
                        "add pairs of the other kind: an accuracy over one kind says nothing about a threshold")};
}

Result<std::unique_ptr<Reader>> open_pairs(const SourceSpec& spec, StopFlag stop) {
  constexpr Bytes kStart = 64 * kKiB;  // enough for the first line of a list
  const std::string path = resolve_path(spec.directory, spec.reader.args.text("path"));
  const Bytes most = std::min(kMostMemory, detect_host().memory_free / 4);
  if (spec.reader.args.has("templates")) {
    return open_templates(spec, most, stop);
  }
  XRUN_ASSIGN(const auto start, read_file(path, kStart, stop));
  if (is_pair_list(start)) {
    return open_list(spec, path, most, stop);
  }
  if (start.empty() || kPickleStarts.find(std::to_integer<char>(start[0])) == std::string_view::npos) {
    return content_error("XG0412", {"{} is neither a verification set nor a list of pairs", path},
                         "name a pickle such as lfw.bin, or a text with a path, a tab, a path, a tab, and 1 or 0 in "
                         "each line");
  }
  XRUN_ASSIGN(auto input, open_pickle_file(path));
  std::array<std::byte, 1> first{};
  XRUN_TRY(input->read(0, first));
  if (first[0] != start[0]) {
    return content_error("XG0412", {"{} is compressed by gzip", path},
                         "unpack it (gunzip): pictures are read from their places in the file");
  }
  XRUN_ASSIGN(PairSet set, read_pair_set(*input, most, stop));
  return std::unique_ptr<Reader>(std::make_unique<PickledPairs>(std::move(input), std::move(set)));
}

}  // namespace xrun::runtime
