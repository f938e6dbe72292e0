// Opening a shard has three steps:
//   1. Find the samples: by the index, of which only those records are examined that are as short as a record without a
//      picture; or by a visit of all records.
//   2. If labels are wanted now, keep those of the records.
//   3. If there is a list, replace the labels by those of the list, after a check that both belong together.
// Tests: tests/runtime/data/readers/recordio/recordio_test.cpp
#include "runtime/data/readers/recordio/record_shard.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "graph/base/errors.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {
namespace {

constexpr int32_t kAsk = std::numeric_limits<int32_t>::min();
constexpr Bytes kMostExpected = kMiB;  // a larger distance to the next sample does not show the size of a record

bool is_whole(double label) { return label == std::floor(label); }

// The label as it is kept. Labels of records that are not whole numbers are asked for again, for the message.
int32_t kept_label(float label) {
  return is_whole(label) && std::abs(label) < kMostLabel ? static_cast<int32_t>(label) : kAsk;
}

Error inexact_label(const std::string& path, Bytes offset, float label) {
  return content_error(
      "XG0405",
      {"{}: the record at byte {} has the label {:.0f}, but labels of records are f32, which lack whole "
       "numbers from 16 777 217 on",
       path, offset, label},
      "put the list from which the records were written next to them, or name it: list=\"train.lst\"");
}

Error other_file(Text why, std::string_view which, const std::string& records) {
  return content_error("XG0412", std::move(why),
                       {"name the {} that was written together with {}, or write it again", which, records});
}

// A damaged record is a broken sample, not a fault of the file.
Result<RecordHead> head_or_why(Result<RecordHead> head, Bytes offset) {
  if (!head.ok() && head.error().code == "XG0412") {
    return RecordHead{.offset = offset, .why = head.error().message};
  }
  return head;
}

}  // namespace

struct RecordShard::Found {
  std::vector<int64_t> keys;  // keys of the samples in the index; without an index the ids of their records
  bool keeps_keys = false;
  bool keeps_labels = false;
};

Result<RecordShard> RecordShard::open(const ShardPaths& paths, const ShardOptions& options) {
  RecordShard shard;
  XRUN_ASSIGN(shard.file_, RecordFile::open(paths.records));
  Found found{.keeps_keys = !paths.list.empty(), .keeps_labels = options.labels && paths.list.empty()};
  XRUN_TRY(paths.index.empty() ? shard.find_by_visit(found, options.stop) : shard.find_by_index(paths, options, found));
  shard.wants_labels_ = options.labels;
  shard.has_list_ = !paths.list.empty();
  if (shard.samples() > 0) {
    XRUN_ASSIGN(const RecordHead first, head_or_why(shard.file_->head(shard.offset(0)), shard.offset(0)));
    shard.width_ = first.labels;
  }
  if (!paths.list.empty()) {
    XRUN_TRY(shard.take_list(paths, options.stop, found));
  }
  shard.offsets_.shrink_to_fit();
  shard.labels_.shrink_to_fit();
  return shard;
}

Status RecordShard::add(const RecordHead& head, int64_t key, Found& found) {
  if (head.is_range) {
    ++ranges_;
    return {};
  }
  offsets_.push_back(head.offset);
  if (found.keeps_keys) {
    found.keys.push_back(key);
  }
  if (found.keeps_labels) {
    if (std::abs(head.label) >= kMostLabel) {
      return inexact_label(file_->path(), head.offset, head.label);
    }
    labels_.push_back(head.why.empty() ? kept_label(head.label) : kAsk);
  }
  return {};
}

Status RecordShard::find_by_visit(Found& found, StopFlag stop) {
  found.keeps_labels = !found.keeps_keys;  // they cost nothing here
  return visit_records(*file_, stop,
                       [&](const RecordHead& head) { return add(head, static_cast<int64_t>(head.id), found); });
}

Status RecordShard::find_by_index(const ShardPaths& paths, const ShardOptions& options, Found& found) {
  XRUN_ASSIGN(const auto entries, read_record_index(paths.index, options.stop));
  XRUN_TRY(check_index(entries, paths.index));
  found.keeps_labels = found.keeps_labels && std::ssize(entries) <= options.most_labels;
  RecordHeads heads(*file_);
  constexpr Bytes kShort = static_cast<Bytes>(kPieceHeader) + kRangeRecord;
  for (size_t i = 0; i < entries.size(); ++i) {
    XRUN_TRY(check_stop(options.stop));
    const IndexEntry entry = entries[i];
    // An index of a part of the records has gaps, so that the first record, and key 0, are always examined.
    const Bytes next = i + 1 < entries.size() ? entries[i + 1].offset : file_->size();
    RecordHead head{.offset = entry.offset};
    if (found.keeps_labels || next - entry.offset <= kShort || i == 0 || entry.key == 0) {
      XRUN_ASSIGN(head, head_or_why(heads.at(entry.offset), entry.offset));
    }
    XRUN_TRY(add(head, entry.key, found));
  }
  return {};
}

Status RecordShard::check_index(const std::vector<IndexEntry>& entries, const std::string& path) const {
  for (const IndexEntry& entry : entries) {
    if (entry.offset % 4 != 0) {
      return other_file(
          {"{} has key {} at byte {}, but records begin at multiples of 4", path, entry.key, entry.offset}, "index",
          file_->path());
    }
    if (entry.offset > file_->size() - static_cast<Bytes>(kPieceHeader)) {
      return content_error(
          "XG0412",
          {"{} has key {} at byte {}, but {} ends at byte {}", path, entry.key, entry.offset, file_->path(),
           file_->size()},
          {"get {} again if it was cut short, or name the index that was written together with it", file_->path()});
    }
  }
  // One damaged record is a broken sample; the index of another file is wrong nearly everywhere.
  int64_t wrong = 0;
  const IndexEntry* example = nullptr;
  const auto looked = looked_samples(std::ssize(entries));
  for (const int64_t i : looked) {
    const IndexEntry& entry = entries[static_cast<size_t>(i)];
    XRUN_ASSIGN(const bool begins, file_->begins_at(entry.offset));
    wrong += begins ? 0 : 1;
    example = begins || example != nullptr ? example : &entry;
  }
  if (example != nullptr && 2 * wrong >= std::ssize(looked)) {
    return other_file(
        {"{} has key {} at byte {}, where no record of {} begins", path, example->key, example->offset, file_->path()},
        "index", file_->path());
  }
  return {};
}

Status RecordShard::take_list(const ShardPaths& paths, StopFlag stop, const Found& found) {
  XRUN_ASSIGN(const RecordList list, RecordList::read(paths.list, stop));
  bool keeps_all = list.labels() > 1;
  std::vector<int64_t> lines;
  for (int64_t i = 0; i < samples(); ++i) {
    const int64_t key = found.keys[static_cast<size_t>(i)];
    lines.push_back(list.find(key));
    if (lines.back() < 0) {
      return other_file({"{} has no line with the key {}, which is that of the record at byte {} of {}", paths.list,
                         key, offset(i), file_->path()},
                        "list", file_->path());
    }
    const double label = list.label(lines.back(), 0);
    if (is_whole(label) && std::abs(label) > std::numeric_limits<int32_t>::max()) {
      return content_error("XG0412",
                           {"{}: the label {:.0f} of the key {} is larger than 2 147 483 647", paths.list, label, key},
                           "number the classes from 0");
    }
    keeps_all = keeps_all || !is_whole(label);
    labels_.push_back(is_whole(label) ? static_cast<int32_t>(label) : kAsk);
  }
  width_ = list.labels();
  for (size_t i = 0; keeps_all && i < lines.size(); ++i) {
    for (int64_t j = 0; j < width_; ++j) {
      listed_.push_back(static_cast<float>(list.label(lines[i], j)));
    }
  }
  return paths.list_named ? Status() : check_list(paths.list, found);
}

Status RecordShard::check_list(const std::string& path, const Found& found) const {
  for (const int64_t i : looked_samples(samples())) {
    const auto head = file_->head(offset(i));
    XRUN_ASSIGN(const double listed, label(i));
    if (head.ok() && head->why.empty() && head->label != static_cast<float>(listed)) {
      Error error =
          other_file({"{} gives the key {} the label {}, but its record at byte {} of {} has the label {}", path,
                      found.keys[static_cast<size_t>(i)], listed, offset(i), file_->path(), head->label},
                     "list", file_->path());
      error.help += "; if the list corrects labels, name it: list=";
      return error;
    }
  }
  return {};
}

Result<RecordFile::Record> RecordShard::read(int64_t sample, std::vector<std::byte>& to) const {
  const auto after = std::upper_bound(offsets_.begin() + sample, offsets_.end(), offset(sample));
  const Bytes distance = (after == offsets_.end() ? file_->size() : *after) - offset(sample);
  return file_->read(offset(sample), distance <= kMostExpected ? distance : 0, to);
}

Result<double> RecordShard::label(int64_t sample) const {
  if (!labels_.empty() && labels_[static_cast<size_t>(sample)] != kAsk) {
    return static_cast<double>(labels_[static_cast<size_t>(sample)]);
  }
  if (!listed_.empty()) {
    return double{listed(sample)[0]};
  }
  XRUN_ASSIGN(const RecordHead head, file_->head(offset(sample)));
  if (!head.why.empty()) {
    return content_error("XG0412", head.why, "write the record again, or raise `max_bad`");
  }
  if (std::abs(head.label) >= kMostLabel) {
    return inexact_label(file_->path(), head.offset, head.label);
  }
  return double{head.label};
}

int64_t RecordShard::largest_label() const {
  return labels_.empty() ? -1 : std::max<int64_t>(*std::ranges::max_element(labels_), -1);
}

std::span<const float> RecordShard::listed(int64_t sample) const {
  const auto width = static_cast<size_t>(width_);
  return listed_.empty() ? std::span<const float>()
                         : std::span(listed_).subspan(static_cast<size_t>(sample) * width, width);
}

Bytes RecordShard::memory() const {
  const size_t labels = wants_labels_ ? offsets_.size() : labels_.capacity();
  return static_cast<Bytes>(offsets_.capacity() * sizeof(Bytes) + labels * sizeof(int32_t) +
                            listed_.capacity() * sizeof(float));
}

}  // namespace xrun::runtime
