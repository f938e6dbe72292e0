#include "runtime/data/readers/recordio/recordio.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/glob.h"
#include "runtime/data/readers/label_numbers.h"
#include "runtime/data/readers/recordio/record_shard.h"
#include "runtime/formats/records/class_names.h"
#include "runtime/formats/text_lines.h"

namespace xrun::runtime {
namespace {

enum FieldNumber { kJpeg, kLabel, kLabels, kId };

class RecordIoReader final : public Reader {
 public:
  // `classes`: 0 if their number is unknown. `names`: those of the classes, or none. `labels_from`: text for
  // describe(), may be empty.
  RecordIoReader(std::vector<RecordShard> shards, int64_t classes, std::vector<std::string> names,
                 std::string labels_from)
      : shards_(std::move(shards)), classes_(classes), names_(std::move(names)), labels_from_(std::move(labels_from)) {
    for (const RecordShard& shard : shards_) {
      samples_ += shard.samples();
      ends_.push_back(samples_);
      width_ = width_ == 0 && shard.samples() > 0 ? shard.width() : width_;
    }
    fields_ = {{"jpeg", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true},
               {"label", {.dtype = DType::kI64, .dims = {kBatch}, .classes = classes_}},
               {"labels", {.dtype = DType::kF32, .dims = {kBatch, width_}}},
               {"id", {.dtype = DType::kI64, .dims = {kBatch}}}};
  }

  int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return classes_; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const Place place = find(sample);
    switch (field) {
      case kJpeg:
        return read_picture(place, out);
      case kLabel:
        return read_label(place, out);
      case kLabels:
        return read_labels(place, out);
      default:
        return read_id(place, out);
    }
  }

  std::string class_name(int64_t label) const override {
    return names_.empty() ? "" : names_[static_cast<size_t>(label)];
  }
  std::string sample_name(int64_t sample) const override {
    const Place place = find(sample);
    return fmt::format("the record at byte {} of {}", place.shard.offset(place.sample), place.shard.file().path());
  }
  std::string describe() const override {
    int64_t ranges = 0;
    for (const RecordShard& shard : shards_) {
      ranges += shard.ranges();
    }
    return fmt::format("recordio: {}{}{}{}", counted(samples_, "image"),
                       classes_ == 0 ? "" : ", " + counted(classes_, "class"), labels_from_,
                       ranges == 0 ? "" : fmt::format("; {} without a picture left out", counted(ranges, "record")));
  }
  Bytes memory() const override {
    Bytes bytes = class_names_memory(names_);
    for (const RecordShard& shard : shards_) {
      bytes += shard.memory();
    }
    return bytes;
  }

 private:
  struct Place {
    const RecordShard& shard;
    int64_t sample;  // number of the sample in the shard
  };

  Place find(int64_t sample) const {
    const auto shard = static_cast<size_t>(std::ranges::upper_bound(ends_, sample) - ends_.begin());
    return {shards_[shard], sample - (shard == 0 ? 0 : ends_[shard - 1])};
  }

  static Status read_picture(const Place& place, FieldValue& out) {
    XRUN_ASSIGN(const RecordFile::Record record, place.shard.read(place.sample, out.storage));
    XRUN_ASSIGN(const ImageRecord image, parse_image_record(record.contents));
    if (image.image.empty()) {
      return broken_sample("the record has labels, but no picture");
    }
    if (std::ssize(image.image) > kLargestPicture) {
      return broken_sample(fmt::format("a picture of more than {}", format_bytes(kLargestPicture)));
    }
    const std::array<int64_t, 1> shape{std::ssize(image.image)};
    out.set_view(DType::kU8, shape, image.image);
    return {};
  }

  static Status read_id(const Place& place, FieldValue& out) {
    XRUN_ASSIGN(const RecordHead head, place.shard.file().head(place.shard.offset(place.sample)));
    if (!head.why.empty()) {
      return broken_sample(head.why);
    }
    out.set_integer(DType::kI64, static_cast<int64_t>(head.id));
    return {};
  }

  Status read_label(const Place& place, FieldValue& out) const {
    XRUN_ASSIGN(const double label, place.shard.label(place.sample));
    XRUN_TRY(check_label_number(label, classes_));
    out.set_integer(DType::kI64, static_cast<int64_t>(label));
    return {};
  }

  Status check_width(int64_t labels) const {
    if (labels != width_) {
      return broken_sample(fmt::format("it has {}, but the first record has {}", counted(labels, "label"), width_));
    }
    return {};
  }

  Status read_labels(const Place& place, FieldValue& out) const {
    const std::array<int64_t, 1> shape{width_};
    if (place.shard.has_list()) {
      XRUN_TRY(check_width(place.shard.width()));
    }
    if (const auto listed = place.shard.listed(place.sample); !listed.empty()) {
      out.set_view(DType::kF32, shape, std::as_bytes(listed));
      return {};
    }
    if (place.shard.has_list()) {
      XRUN_ASSIGN(const double label, place.shard.label(place.sample));
      const auto narrow = static_cast<float>(label);
      std::memcpy(out.set_own(DType::kF32, shape), &narrow, sizeof narrow);
      return {};
    }
    std::vector<std::byte> bytes;
    XRUN_ASSIGN(const RecordFile::Record record, place.shard.read(place.sample, bytes));
    XRUN_ASSIGN(const ImageRecord image, parse_image_record(record.contents));
    XRUN_TRY(check_width(image.labels()));
    auto* to = reinterpret_cast<float*>(out.set_own(DType::kF32, shape));
    for (int64_t i = 0; i < width_; ++i) {
      to[i] = image.label(i);
    }
    return {};
  }

  std::vector<RecordShard> shards_;
  int64_t classes_;
  std::vector<std::string> names_;  // empty: labels are numbers only
  std::string labels_from_;
  int64_t samples_ = 0;
  int64_t width_ = 0;          // number of labels of the first sample
  std::vector<int64_t> ends_;  // for each shard, the number of samples in it and in those before it
  std::vector<Field> fields_;
};

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

// The path with another extension: "a/train.rec" to "a/train.idx".
std::string with_extension(const std::string& path, std::string_view extension) {
  const size_t dot = path.rfind('.');
  const bool has = dot != std::string::npos && path.find('/', dot) == std::string::npos;
  return path.substr(0, has ? dot : path.size()) + std::string(extension);
}

struct Sources {
  std::vector<ShardPaths> shards;
  std::string labels_from;  // text for describe()
};

// The file that goes with the records: the one that the argument names, else the one next to the records if it exists.
std::string companion(const SourceSpec& spec, std::string_view argument, const std::string& next_to) {
  if (!spec.reader.args.has(argument)) {
    return exists(next_to) ? next_to : "";
  }
  const std::string& named = spec.reader.args.text(argument);
  return named.empty() ? "" : resolve_path(spec.directory, named);
}

Result<Sources> find_sources(const SourceSpec& spec) {
  constexpr size_t kLongestLine = 64 * kKiB;
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(const Glob pattern, Glob::parse(args.text("path")));
  Sources sources;
  for (const std::string& path : pattern.alternatives()) {
    for (const char* argument : {"index", "list"}) {
      if (pattern.alternatives().size() > 1 && args.has(argument) && !args.text(argument).empty()) {
        return content_error(
            "XG0413", {"`{}` names one file, but `path` names {} files", argument, pattern.alternatives().size()},
            "put the file of each next to it, with the same name and another extension");
      }
    }
    ShardPaths shard{.records = resolve_path(spec.directory, path)};
    shard.index = companion(spec, "index", with_extension(shard.records, ".idx"));
    shard.list = companion(spec, "list", with_extension(shard.records, ".lst"));
    shard.list_named = args.has("list");
    if (!shard.list.empty() && !shard.list_named) {
      XRUN_ASSIGN(const std::string line, first_line(shard.list, kLongestLine));
      if (!RecordList::is_line(line)) {
        sources.labels_from = fmt::format(" (labels of the records; {} is not a list by im2rec)", shard.list);
        shard.list.clear();
      }
    }
    if (!shard.list.empty()) {
      sources.labels_from = fmt::format(" (labels of {})", shard.list);
    }
    sources.shards.push_back(std::move(shard));
  }
  return sources;
}

// The number of classes that is known before labels are read; 0 if it is not known. Errors: XG0402 the file of names
// has another number of classes than the argument.
Result<int64_t> told_classes(const Attrs& args, const std::string& records, const std::vector<std::string>& names) {
  const auto told = args.has("classes") ? std::optional(args.integer("classes")) : std::nullopt;
  if (told && !names.empty() && *told != std::ssize(names)) {
    return content_error("XG0402",
                         {"{} names {} classes, but `classes` is {}", class_names_path(records), names.size(), *told},
                         "leave `classes` out, or name all classes in the file");
  }
  if (told || !names.empty()) {
    return told ? *told : std::ssize(names);
  }
  const std::string property = records.substr(0, records.rfind('/') + 1) + "property";
  return exists(property) ? read_property_classes(property) : Result<int64_t>(0);
}

Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, ShardOptions options) {
  XRUN_TRY(data_registry().find_reader("recordio")->fields(spec.reader.args));
  XRUN_ASSIGN(Sources sources, find_sources(spec));
  std::vector<std::string> records;
  std::ranges::transform(sources.shards, std::back_inserter(records), &ShardPaths::records);
  XRUN_ASSIGN(std::vector<std::string> names, find_class_names(records, options.stop));
  XRUN_ASSIGN(int64_t classes, told_classes(spec.reader.args, records.front(), names));
  options.labels = classes == 0;
  std::vector<RecordShard> shards;
  int64_t largest = -1;
  int64_t samples = 0;
  bool knows_labels = true;
  for (const ShardPaths& paths : sources.shards) {
    XRUN_ASSIGN(RecordShard shard, RecordShard::open(paths, options));
    largest = std::max(largest, shard.largest_label());
    samples += shard.samples();
    knows_labels = knows_labels && shard.knows_labels();
    shards.push_back(std::move(shard));
  }
  const bool counts = classes == 0 && knows_labels;
  if (counts || spec.reader.args.has("classes")) {
    XRUN_ASSIGN(classes, count_classes(spec.reader.args, largest, samples, sources.shards[0].records));
  }
  return std::unique_ptr<Reader>(
      std::make_unique<RecordIoReader>(std::move(shards), classes, std::move(names), std::move(sources.labels_from)));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_recordio(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, {.stop = stop});
}

Result<std::unique_ptr<Reader>> open_recordio_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, {.most_labels = 65'536, .stop = stop});
}

}  // namespace xrun::runtime
