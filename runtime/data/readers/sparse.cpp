// Opening reads the file once, to find where its rows begin, and the first label of each row.
#include "runtime/data/readers/sparse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/random.h"
#include "runtime/formats/foreign.h"
#include "runtime/formats/random_file.h"
#include "runtime/formats/tables/sparse_text.h"

namespace xrun::runtime {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr Bytes kMostLine = 16 * kMiB;
constexpr Bytes kMostFirstLine = 256;
constexpr int32_t kBroken = std::numeric_limits<int32_t>::min();  // label of a row whose labels cannot be read
constexpr uint64_t kHash = 0x73706172'73650000;                   // key of the draws for features

enum class Labels { kOne, kFirst, kOnly };

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view without_break(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  return line;
}

struct Rows {
  std::vector<int64_t> starts;   // offset of each row, and the end of the last one
  std::vector<int32_t> labels;   // first label of each row; -1: none
  std::vector<int64_t> singles;  // the rows with one label, if only these are samples
  int64_t several = 0;           // number of rows with several labels
  int64_t first_several = 0;
};

// Finds the rows of a file, from the first one on.
class Scan {
 public:
  Scan(RandomFile file, const SparseHeader& header, Labels labels, Bytes begin)
      : file_(std::move(file)), header_(header), labels_(labels), at_(begin) {}

  // Reads on until `wanted` rows are known, or until the end of the file.
  Status run(int64_t wanted, StopFlag stop) {
    if (wanted <= std::ssize(rows_.labels)) {
      return {};
    }
    rows_.starts.resize(rows_.labels.size());  // without the end of the last row
    const Status done = read_on(wanted, stop);
    end_rows();
    return done;
  }
  const RandomFile& file() const { return file_; }
  const Rows& rows() const { return rows_; }

 private:
  Status read_on(int64_t wanted, StopFlag stop) {
    std::vector<std::byte> chunk;
    Bytes read = at_;
    while (read < file_.size() && std::ssize(rows_.labels) < wanted) {
      XRUN_TRY(check_stop(stop));
      const size_t kept = chunk.size();
      const size_t more = std::min(kChunk, static_cast<size_t>(file_.size() - read));
      chunk.resize(kept + more);
      XRUN_TRY(file_.read(read, std::span(chunk).subspan(kept)));
      read += static_cast<Bytes>(more);
      XRUN_ASSIGN(const size_t used, take_lines(text_of(chunk), read == file_.size()));
      chunk.erase(chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(used));
      if (static_cast<Bytes>(chunk.size()) > kMostLine) {
        return content_error("XG0412",
                             {"{}: the line at byte {} is longer than {}", file_.path(), at_, format_bytes(kMostLine)},
                             "write each row as a line of its own");
      }
    }
    return {};
  }

  // Takes the lines that are complete, and returns their length.
  Result<size_t> take_lines(std::string_view text, bool is_last) {
    size_t used = 0;
    while (used < text.size()) {
      const size_t found = text.find('\n', used);
      if (found == std::string_view::npos && !is_last) {
        break;
      }
      const size_t next = found == std::string_view::npos ? text.size() : found + 1;
      XRUN_TRY(take_line(without_break(text.substr(used, next - used))));
      at_ += static_cast<Bytes>(next - used);
      used = next;
    }
    return used;
  }

  Status take_line(std::string_view line) {
    const int64_t row = std::ssize(rows_.labels);
    if (row == header_.rows) {
      end_rows();
      const bool is_blank = line.find_first_not_of(" \t") == std::string_view::npos;
      return is_blank ? Status()
                      : content_error("XG0412",
                                      {"{}: its first line says {} rows, but more follow at byte {}", file_.path(),
                                       header_.rows, at_},
                                      "write the number of the rows into the first line");
    }
    const auto parsed = parse_sparse_row(line, header_.labels);
    rows_.starts.push_back(at_);
    rows_.labels.push_back(parsed.ok() ? static_cast<int32_t>(parsed->first) : kBroken);
    if (parsed.ok() && parsed->labels > 1) {
      rows_.first_several = rows_.several++ == 0 ? row : rows_.first_several;
    }
    if (labels_ == Labels::kOnly && (!parsed.ok() || parsed->labels == 1)) {
      rows_.singles.push_back(row);  // a broken row is a sample, so that it is reported
    }
    return {};
  }

  // Records the end of the last row, before blank lines that follow it.
  void end_rows() {
    if (rows_.starts.size() == rows_.labels.size()) {
      rows_.starts.push_back(at_);
    }
  }

  RandomFile file_;
  SparseHeader header_;
  Labels labels_;
  Bytes at_;  // offset of the next line
  Rows rows_;
};

Status check_rows(const Rows& rows, const SparseHeader& header, Labels labels, const RandomFile& file, bool whole) {
  if (whole && std::ssize(rows.labels) < header.rows) {
    return content_error("XG0412",
                         {"{}: its first line says {} rows, but it has {}: it ends at byte {}", file.path(),
                          header.rows, rows.labels.size(), file.size()},
                         "get the file again; it may be cut short");
  }
  if (labels == Labels::kOne && rows.several > 0) {
    return content_error(
        "XG0413",
        {"{}: {} of {} rows have several labels, first that of line {}", file.path(), format_count(rows.several),
         format_count(std::ssize(rows.labels)), rows.first_several + 2},
        "write label=\"first\" for the first label of each row, or label=\"only\" to leave these rows out");
  }
  return {};
}

class SparseReader final : public Reader {
 public:
  // `whole`: all rows are known; otherwise `read` finds those that it needs.
  SparseReader(Scan scan, const SparseHeader& header, Labels labels, int64_t hash, bool whole)
      : scan_(std::move(scan)), header_(header), labels_(labels), hash_(hash), whole_(whole) {
    shape_ = {hash > 0 ? hash : header.features};
    fields_ = {{"features", {.dtype = DType::kF32, .dims = {kBatch, shape_[0]}}},
               {"label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = header.labels}}};
  }

  int64_t samples() const override {
    return labels_ == Labels::kOnly ? std::ssize(scan_.rows().singles) : header_.rows;
  }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return header_.labels; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    const int64_t row = row_of(sample);
    if (whole_) {
      return read_known(static_cast<size_t>(row), field, out);
    }
    const std::lock_guard lock(mutex_);
    XRUN_TRY(scan_.run(row + 1, nullptr));
    XRUN_TRY(check_rows(scan_.rows(), header_, labels_, scan_.file(), row >= std::ssize(scan_.rows().labels)));
    return read_known(static_cast<size_t>(row), field, out);
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override {
    return fmt::format("{}:{}", scan_.file().path(), row_of(sample) + 2);
  }
  std::string describe() const override {
    const std::string rows = labels_ == Labels::kOnly ? counted_of(samples(), header_.rows, "row") + " with one label,"
                                                      : counted(header_.rows, "row") + " of";
    return fmt::format("sparse: {} {}{}, {}", rows, counted(header_.features, "feature"),
                       hash_ > 0 ? fmt::format(" hashed to {}", hash_) : "", counted(header_.labels, "class"));
  }
  Bytes memory() const override {
    constexpr auto kRow = static_cast<Bytes>(sizeof(int64_t) + sizeof(int32_t));
    return header_.rows * kRow + static_cast<Bytes>(scan_.rows().singles.size() * sizeof(int64_t));
  }

 private:
  int64_t row_of(int64_t sample) const {
    return labels_ == Labels::kOnly ? scan_.rows().singles[static_cast<size_t>(sample)] : sample;
  }

  Status read_known(size_t row, int field, FieldValue& out) const {
    const int32_t label = scan_.rows().labels[row];
    if (field == 1 && label != kBroken) {
      out.set_integer(DType::kI32, label);
      return {};
    }
    XRUN_TRY(read_row(row, out));
    return field == 0 ? Status() : content_error("XG0412", "its line changed after the file was opened", "run again");
  }

  // Reads the line next to the dense row, and adds its features to the row.
  Status read_row(size_t row, FieldValue& out) const {
    const std::vector<int64_t>& starts = scan_.rows().starts;
    const auto bytes = static_cast<size_t>(starts[row + 1] - starts[row]);
    std::byte* const to = out.set_own(DType::kF32, shape_, bytes);
    const std::span<std::byte> line(to + out.bytes.size(), bytes);
    XRUN_TRY(scan_.file().read(starts[row], line));
    XRUN_ASSIGN(const SparseRow parsed, parse_sparse_row(without_break(text_of(line)), header_.labels));
    std::memset(to, 0, out.bytes.size());
    auto* const sums = reinterpret_cast<float*>(to);
    bool is_finite = true;
    XRUN_TRY(for_each_sparse_feature(parsed.features, header_.features, [&](int64_t feature, float value) {
      const HashedFeature place = hash_ > 0 ? hash_feature(feature, hash_) : HashedFeature{feature, 1};
      sums[place.index] += place.sign * value;
      is_finite = is_finite && std::isfinite(sums[place.index]);
    }));
    return is_finite ? Status()
                     : content_error("XG0412", "the sum of its values is not a finite f32",
                                     "correct the line, or raise `max_bad`");
  }

  mutable std::mutex mutex_;  // guards `scan_` unless all rows are known
  mutable Scan scan_;
  SparseHeader header_;
  Labels labels_;
  int64_t hash_;
  bool whole_;
  std::array<int64_t, 1> shape_{};
  std::vector<Field> fields_;
};

struct FirstLine {
  SparseHeader header;
  Bytes bytes = 0;  // with its line break
};

Result<FirstLine> read_first_line(const RandomFile& file) {
  std::vector<std::byte> start(static_cast<size_t>(std::min(file.size(), kMostFirstLine)));
  XRUN_TRY(file.read(0, start));
  const std::string_view text = text_of(start);
  if (text.starts_with("\x1f\x8b")) {
    return content_error("XG0412", {"{}: compressed by gzip, so its rows cannot be read one by one", file.path()},
                         "unpack it: gunzip FILE");
  }
  XRUN_TRY(refuse_foreign(start, file.path()));
  const size_t end = text.find('\n');
  XRUN_ASSIGN(const SparseHeader header, parse_sparse_header(without_break(text.substr(0, end)), file.path()));
  return FirstLine{header, end == std::string_view::npos ? file.size() : static_cast<Bytes>(end) + 1};
}

Status check_counts(const SparseHeader& header, int64_t hash, const RandomFile& file) {
  const std::string& path = file.path();
  if (header.rows > file.size()) {  // each row takes at least a line break
    return content_error("XG0412",
                         {"{}: its first line says {} rows, but it has {} bytes", path, header.rows, file.size()},
                         "write the number of the rows into the first line, or get the file again");
  }
  if (header.labels > std::numeric_limits<int32_t>::max()) {
    return content_error(
        "XG0412", {"{}: its first line says {} labels, but at most 2 147 483 647 are supported", path, header.labels},
        "write the number of the labels into the first line, or get the file again");
  }
  if (hash == 0 && header.features > kMostDenseFeatures) {
    return content_error("XG0413",
                         {"{} has {} features, but a dense row has at most {}", path, format_count(header.features),
                          format_count(kMostDenseFeatures)},
                         "hash the features into fewer numbers: sparse(.., hash=4096)");
  }
  return {};
}

Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, bool whole, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  XRUN_TRY(data_registry().find_reader("sparse")->fields(args));
  const std::string label = args.has("label") ? args.text("label") : "";
  const Labels labels = label == "first" ? Labels::kFirst : label == "only" ? Labels::kOnly : Labels::kOne;
  const int64_t hash = args.integer("hash", 0);
  XRUN_ASSIGN(RandomFile file, RandomFile::open(resolve_path(spec.directory, args.text("path"))));
  XRUN_ASSIGN(const FirstLine first, read_first_line(file));
  XRUN_TRY(check_counts(first.header, hash, file));
  const bool all = whole || labels == Labels::kOnly;
  Scan scan(std::move(file), first.header, labels, first.bytes);
  XRUN_TRY(scan.run(all ? std::numeric_limits<int64_t>::max() : 1, stop));
  XRUN_TRY(check_rows(scan.rows(), first.header, labels, scan.file(), all));
  return std::unique_ptr<Reader>(std::make_unique<SparseReader>(std::move(scan), first.header, labels, hash, all));
}

}  // namespace

HashedFeature hash_feature(int64_t feature, int64_t size) {
  const auto draws = RandomStream(0, static_cast<uint64_t>(feature), 0, kHash).block(0);
  const uint64_t index = (uint64_t{draws[0]} * static_cast<uint64_t>(size)) >> 32;
  return {static_cast<int64_t>(index), (draws[1] & 1) != 0 ? -1.0F : 1.0F};
}

Result<std::unique_ptr<Reader>> open_sparse(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, true, stop);
}

Result<std::unique_ptr<Reader>> open_sparse_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, false, stop);
}

}  // namespace xrun::runtime
