// One file of records with the texts that accompany it: the offsets of its samples, and their labels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/records/record_file.h"
#include "runtime/formats/records/record_texts.h"

namespace xrun::runtime {

// The files of a shard. An empty path: there is no such file.
struct ShardPaths {
  std::string records;
  std::string index;
  std::string list;
  bool list_named = false;  // the user named the list, so its labels may differ from those in the records
};

struct ShardOptions {
  bool labels = false;              // read the labels of all samples if the shard has no list
  int64_t most_labels = INT64_MAX;  // but only if there are at most this many samples
  StopFlag stop = nullptr;
};

// An open shard. Its samples are the records with a picture, in the order of the file; records of InsightFace without a
// picture are left out. All methods are const and may be called by any number of threads.
class RecordShard {
 public:
  // Opens the shard. Without an index all records are visited. Errors: XG0401; XG0412 a file is damaged, or the index
  // or the list belongs to another file; XG0405; kInterrupted.
  static Result<RecordShard> open(const ShardPaths& paths, const ShardOptions& options);

  const RecordFile& file() const { return *file_; }
  int64_t samples() const { return static_cast<int64_t>(offsets_.size()); }
  int64_t ranges() const { return ranges_; }  // records without a picture, which are left out
  Bytes offset(int64_t sample) const { return offsets_[static_cast<size_t>(sample)]; }
  // Reads the record of a sample (RecordFile::read).
  Result<RecordFile::Record> read(int64_t sample, std::vector<std::byte>& to) const;

  // The first label of a sample, as its record or the list gives it; it need not be a whole number. Errors: XG0412,
  // XG0401; XG0405 an f32 does not hold the label exactly.
  Result<double> label(int64_t sample) const;
  // Whether the labels of all samples are known without reading records, so that `largest_label` is complete.
  bool knows_labels() const { return samples() == 0 || !labels_.empty(); }
  int64_t largest_label() const;  // -1 if no sample has a label that is a whole number

  bool has_list() const { return has_list_; }
  int64_t width() const { return width_; }  // number of labels of the first sample
  // The labels of a sample in the list, `width` numbers; empty if the labels are those of the records, or `label` is
  // the only one.
  std::span<const float> listed(int64_t sample) const;
  // The memory that the shard holds, or would hold if all labels had been read that `labels` asks for.
  Bytes memory() const;

 private:
  struct Found;  // what is known of the samples while they are found

  Status add(const RecordHead& head, int64_t key, Found& found);
  Status find_by_visit(Found& found, StopFlag stop);
  Status find_by_index(const ShardPaths& paths, const ShardOptions& options, Found& found);
  Status check_index(const std::vector<IndexEntry>& entries, const std::string& path) const;
  Status take_list(const ShardPaths& paths, StopFlag stop, const Found& found);
  Status check_list(const std::string& path, const Found& found) const;

  std::unique_ptr<RecordFile> file_;
  std::vector<Bytes> offsets_;   // ascending
  std::vector<int32_t> labels_;  // empty, or one for each sample; kAsk: the label is read when it is asked for
  std::vector<float> listed_;    // [samples, width], if the list has several labels or labels that are not whole
  int64_t width_ = 1;
  bool wants_labels_ = false;
  bool has_list_ = false;
  int64_t ranges_ = 0;
};

}  // namespace xrun::runtime
