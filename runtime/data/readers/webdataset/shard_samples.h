// The samples of a tar shard: consecutive members with one key. Only headers and labels are read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/records/tar.h"

namespace xrun::runtime {

// A member's name in two parts: `key` is everything before the first dot of its base name, and `extension` everything
// after it, in lower case. "a/7.Seg.png" has the key "a/7" and the extension "seg.png".
struct MemberName {
  std::string_view key;
  std::string extension;
};

// Splits the name of a member. Returns nullopt if the member belongs to no sample: its base name has no dot or begins
// with one, or it is metadata.
std::optional<MemberName> split_name(std::string_view name);

// Whether the first part of a member's path is `__x__`: by convention, a description of the shard.
bool is_metadata(std::string_view name);

// The extension of members with labels.
inline constexpr std::string_view kLabelExtension = "cls";
inline constexpr Bytes kMostLabelBytes = 64;  // limit for the content of such a member

// Parses the content of a `.cls` member: a decimal number, which blanks and line breaks may surround. Zeros may follow
// a decimal point, since some writers store 7 as 7.0. Returns nullopt if it is not a whole number of i64.
std::optional<int64_t> parse_label(std::span<const std::byte> content);

// The labels of samples: i32 while all of them fit, else i64. Two values are reserved.
class SampleLabels {
 public:
  static constexpr int64_t kNone = INT64_MIN;        // the sample has no label
  static constexpr int64_t kBroken = INT64_MIN + 1;  // its label is not a number

  SampleLabels() = default;
  explicit SampleLabels(std::vector<int32_t> narrow) : narrow_(std::move(narrow)) {}
  explicit SampleLabels(std::vector<int64_t> wide) : wide_(std::move(wide)), is_wide_(true) {}

  void add(int64_t label);
  void set_last(int64_t label);
  int64_t at(size_t sample) const;
  size_t size() const { return is_wide_ ? wide_.size() : narrow_.size(); }
  Bytes memory() const;
  void shrink();

  std::span<const int32_t> narrow() const { return narrow_; }
  std::span<const int64_t> wide() const { return wide_; }

 private:
  void widen();

  std::vector<int32_t> narrow_;
  std::vector<int64_t> wide_;
  bool is_wide_ = false;
};

struct ExtensionCount {
  std::string name;
  int64_t members = 0;
};

struct ShardSamples {
  Bytes bytes = 0;                     // size of the shard
  uint32_t end_block = 0;              // number of the block after the last member
  std::vector<uint32_t> first_blocks;  // number of the block at which each sample begins, ascending
  SampleLabels labels;                 // label of each sample
  int64_t largest_label = -1;          // -1: no label of 0 or more
  int64_t labelled = 0;                // samples with a label

  // Facts for reports.
  std::vector<ExtensionCount> extensions;  // at most kMostExtensions, in order of first appearance
  int64_t other_members = 0;               // files that belong to no sample and are no metadata
  int64_t links = 0;                       // symbolic and hard links, which are not read
  int64_t most_members = 0;                // members of the largest sample
  int64_t largest_sample = 0;              // its number
  int64_t split_keys = 0;                  // samples whose key an earlier sample had, with another one in between
  bool no_end = false;                     // the archive has no end mark
  bool after_end = false;                  // members follow the end mark

  int64_t samples() const { return static_cast<int64_t>(first_blocks.size()); }
  // Offsets of the sample's first member and after its last one.
  Bytes begin_of(size_t sample) const { return first_blocks[sample] * kTarBlock; }
  Bytes end_of(size_t sample) const {
    return std::min((sample + 1 < first_blocks.size() ? first_blocks[sample + 1] : end_block) * kTarBlock, bytes);
  }
};

inline constexpr size_t kMostExtensions = 64;

// Reads the headers of all members, and the labels. `path` is for messages. Errors: those of TarReader; XG0412 a sample
// has two members with one extension.
Result<ShardSamples> scan_shard(TarBytes& bytes, const std::string& path);

// Opens the shard and does the same; `stop` ends it early.
Result<ShardSamples> scan_shard(const std::string& path, StopFlag stop);

}  // namespace xrun::runtime
