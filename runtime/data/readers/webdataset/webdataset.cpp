// Tests: tests/runtime/data/readers/webdataset/webdataset_test.cpp
#include "runtime/data/readers/webdataset/webdataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/settings/reader_def.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/webdataset/open_shards.h"
#include "runtime/data/readers/webdataset/sample_member.h"
#include "runtime/data/readers/webdataset/shard_file.h"
#include "runtime/data/readers/webdataset/shard_index.h"
#include "runtime/data/readers/webdataset/shard_paths.h"
#include "runtime/data/readers/webdataset/shard_report.h"
#include "runtime/data/readers/webdataset/shard_samples.h"
#include "runtime/formats/records/class_names.h"

namespace xrun::runtime {
namespace {

// A sample of at most this size is read at once; the members of a larger one are found first.
constexpr Bytes kOneRead = 4 * kMiB;

struct Shard {
  std::string path;
  ShardSamples samples;
};

class WebDataset final : public Reader {
 public:
  // `names`: those of the classes, or none.
  WebDataset(std::vector<Shard> shards, ShardReport report, std::vector<Field> fields, std::vector<std::string> names,
             int64_t gap)
      : shards_(std::move(shards)),
        report_(std::move(report)),
        fields_(std::move(fields)),
        names_(std::move(names)),
        gap_(gap),
        files_(shards_.size()) {
    int64_t first = 0;
    for (const Shard& shard : shards_) {
      first_samples_.push_back(first);
      first += shard.samples.samples();
    }
  }

  int64_t samples() const override { return report_.samples(); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return names_.empty() ? report_.classes() : std::ssize(names_); }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const Place place = place_of(sample);
    const std::string& name = fields_[static_cast<size_t>(field)].name;
    if (name == kLabelExtension) {
      const int64_t label = label_at(place);
      if (label == SampleLabels::kNone || label == SampleLabels::kBroken) {
        return read_content(place, name, out);  // which reports the fault
      }
      out.set_integer(DType::kI64, label);
      return {};
    }
    if (name == "key") {
      XRUN_ASSIGN(const std::string key, key_at(place));
      const std::array<int64_t, 1> shape{static_cast<int64_t>(key.size())};
      std::ranges::copy(std::as_bytes(std::span(key)), out.set_own(DType::kU8, shape));
      return {};
    }
    return read_content(place, name, out);
  }

  std::string class_name(int64_t label) const override {
    return names_.empty() ? "" : names_[static_cast<size_t>(label)];
  }
  bool has_labels() const override { return report_.labelled() > 0; }
  std::string sample_name(int64_t sample) const override {
    const Place place = place_of(sample);
    const auto key = key_at(place);
    return key.ok() ? fmt::format("{}/{}", place.shard->path, *key)
                    : fmt::format("sample {} of {}", place.number, place.shard->path);
  }
  std::string describe() const override { return report_.describe(); }
  Bytes memory() const override {
    Bytes bytes = class_names_memory(names_);
    for (const Shard& shard : shards_) {
      bytes += static_cast<Bytes>(sizeof(Shard) + shard.path.capacity() +
                                  shard.samples.first_blocks.capacity() * sizeof(uint32_t)) +
               shard.samples.labels.memory();
    }
    return bytes;
  }
  std::vector<Error> warnings() const override {
    std::vector<Error> all = report_.warnings();
    if (gap_ > 0) {
      all.push_back(
          content_error("XG0416",
                        {"{} {}, but {} of these classes have no sample",
                         names_.empty() ? "labels go up to" : "the last class is", classes() - 1, format_count(gap_)},
                        "check whether labels count from 0 without gaps, and whether a shard is missing"));
    }
    return all;
  }

 private:
  struct Place {
    const Shard* shard;
    size_t number;  // position of the sample in its shard
    Bytes begin() const { return shard->samples.begin_of(number); }
    Bytes end() const { return shard->samples.end_of(number); }
  };

  Place place_of(int64_t sample) const {
    const auto after = std::ranges::upper_bound(first_samples_, sample);
    const auto shard = static_cast<size_t>(after - first_samples_.begin()) - 1;
    return {&shards_[shard], static_cast<size_t>(sample - first_samples_[shard])};
  }

  int64_t label_at(const Place& place) const { return place.shard->samples.labels.at(place.number); }

  Result<OpenShards::File> file_of(const Place& place) const {
    return files_.open(static_cast<size_t>(place.shard - shards_.data()), place.shard->path,
                       place.shard->samples.bytes);
  }

  SeenSample seen(const Place& place) const {
    return {.path = place.shard->path, .number = place.number, .begin = place.begin(), .label = label_at(place)};
  }

  Result<std::string> key_at(const Place& place) const {
    XRUN_ASSIGN(const auto file, file_of(place));
    ShardFile bytes(file.get(), place.shard->path, place.end());
    return key_of(bytes, seen(place));
  }

  // Reads the content of the member that the field names.
  Status read_content(const Place& place, const std::string& field, FieldValue& out) const {
    XRUN_ASSIGN(const auto file, file_of(place));
    const Bytes begin = place.begin();
    if (place.end() - begin > kOneRead) {
      ShardFile bytes(file.get(), place.shard->path, place.end());
      XRUN_ASSIGN(const TarMember member, find_member(bytes, seen(place), field));
      if (member.size > kLargestPicture) {
        return broken_sample(fmt::format("`{}` has more than {}", member.name, format_bytes(kLargestPicture)));
      }
      const std::array<int64_t, 1> shape{member.size};
      std::byte* to = out.set_own(DType::kU8, shape);
      return read_at(file.get(), place.shard->path, member.offset, {to, static_cast<size_t>(member.size)});
    }
    const std::array<int64_t, 1> whole{place.end() - begin};
    const std::span<std::byte> sample(out.set_own(DType::kU8, whole), static_cast<size_t>(whole[0]));
    XRUN_TRY(read_at(file.get(), place.shard->path, begin, sample));
    TarMemory bytes(sample, begin);
    XRUN_ASSIGN(const TarMember member, find_member(bytes, seen(place), field));
    const std::array<int64_t, 1> shape{member.size};
    out.set_view(DType::kU8, shape,
                 sample.subspan(static_cast<size_t>(member.offset - begin), static_cast<size_t>(member.size)));
    return {};
  }

  std::vector<Shard> shards_;
  std::vector<int64_t> first_samples_;  // number of the first sample of each shard
  ShardReport report_;
  std::vector<Field> fields_;
  std::vector<std::string> names_;  // empty: labels are numbers only
  int64_t gap_;
  OpenShards files_;
};

// The samples of a shard from its index or from its headers.
struct LoadedShard {
  Result<ShardSamples> samples = ShardSamples{};
  bool indexed = false;
  std::string fault;
};

LoadedShard load_shard(const std::string& path, StopFlag stop) {
  if (Status stopped = check_stop(stop); !stopped.ok()) {
    return {.samples = std::move(stopped).error()};
  }
  auto indexed = load_index(path);
  if (!indexed.ok()) {
    return {.samples = std::move(indexed).error()};
  }
  if (indexed->samples) {
    return {.samples = std::move(*indexed->samples), .indexed = true};
  }
  return {.samples = scan_shard(path, stop), .fault = std::move(indexed->fault)};
}

// Returns the first fault of the shards. If shards are missing, its help says how many.
Error first_fault(const std::vector<LoadedShard>& loaded) {
  const auto is_missing = [](const LoadedShard& shard) {
    return !shard.samples.ok() && shard.samples.error().code == "XG0401" &&
           shard.samples.error().kind == ErrorKind::kContent;
  };
  const auto fault = std::ranges::find_if(loaded, [](const LoadedShard& shard) { return !shard.samples.ok(); });
  Error error = fault->samples.error();
  if (is_missing(*fault) && loaded.size() > 1) {
    error.notes.push_back(
        fmt::format("{} missing", counted_of(std::ranges::count_if(loaded, is_missing), std::ssize(loaded), "shard")));
  }
  return error;
}

// The number of classes below the largest label without samples.
int64_t count_gap(const std::vector<Shard>& shards, int64_t classes) {
  std::vector<bool> seen(static_cast<size_t>(classes));
  for (const Shard& shard : shards) {
    for (size_t i = 0; i < shard.samples.labels.size(); ++i) {
      if (const int64_t label = shard.samples.labels.at(i); label >= 0) {
        seen[static_cast<size_t>(label)] = true;
      }
    }
  }
  return std::ranges::count(seen, false);
}

}  // namespace

Result<std::unique_ptr<Reader>> open_webdataset(const SourceSpec& spec, StopFlag stop) {
  constexpr int64_t kMostPerSample = 16;  // labels far above the number of samples are those of a part of a set
  XRUN_ASSIGN(auto paths, shard_paths(spec.directory, spec.reader.args.texts("path")));
  std::vector<LoadedShard> loaded(paths.size());
  tbb::parallel_for(size_t{0}, paths.size(), [&](size_t i) { loaded[i] = load_shard(paths[i], stop); });
  XRUN_TRY(check_stop(stop));
  XRUN_ASSIGN(std::vector<std::string> names, find_class_names(paths, stop));
  if (std::ranges::any_of(loaded, [](const LoadedShard& shard) { return !shard.samples.ok(); })) {
    return first_fault(loaded);
  }
  ShardReport report;
  std::vector<Shard> shards;
  for (size_t i = 0; i < paths.size(); ++i) {
    ShardSamples& samples = loaded[i].samples.value();
    report.add(paths[i], samples, loaded[i].indexed, loaded[i].fault);
    samples.extensions = {};
    shards.push_back({std::move(paths[i]), std::move(samples)});
  }
  if (!names.empty() && report.classes() > std::ssize(names)) {
    return content_error("XG0402",
                         {"{} names {} classes, but a sample has the label {}", class_names_path(shards[0].path),
                          names.size(), report.classes() - 1},
                         "name all classes in the file, or remove it");
  }
  const int64_t classes = names.empty() ? report.classes() : std::ssize(names);
  XRUN_ASSIGN(auto fields, data_registry().find_reader("webdataset")->fields(spec.reader.args));
  std::ranges::find(fields, kLabelExtension, &Field::name)->type.classes = classes;
  const bool told = spec.name == "train" && classes / kMostPerSample <= report.samples();
  const int64_t gap = told ? count_gap(shards, classes) : 0;
  return std::unique_ptr<Reader>(
      std::make_unique<WebDataset>(std::move(shards), std::move(report), std::move(fields), std::move(names), gap));
}

}  // namespace xrun::runtime
