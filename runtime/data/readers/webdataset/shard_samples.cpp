// Tests: tests/runtime/data/readers/webdataset/shard_samples_test.cpp
#include "runtime/data/readers/webdataset/shard_samples.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <unordered_set>

#include "graph/base/errors.h"
#include "runtime/data/readers/webdataset/shard_file.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

// Labels that i32 stores for the two reserved values.
constexpr int32_t kNarrowNone = INT32_MIN;
constexpr int32_t kNarrowBroken = INT32_MIN + 1;

bool fits_narrow(int64_t label) {
  return label == SampleLabels::kNone || label == SampleLabels::kBroken ||
         (label > kNarrowBroken && label <= INT32_MAX);
}

int32_t narrowed(int64_t label) {
  return label == SampleLabels::kNone     ? kNarrowNone
         : label == SampleLabels::kBroken ? kNarrowBroken
                                          : static_cast<int32_t>(label);
}

int64_t widened(int32_t label) {
  return label == kNarrowNone ? SampleLabels::kNone : label == kNarrowBroken ? SampleLabels::kBroken : int64_t{label};
}

constexpr size_t kMostMembers = 1000;  // limit for a sample; usual samples have two to ten members
constexpr size_t kMostKeys = 1 << 20;  // limit for the keys whose repetition is found

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool is_metadata(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first.size() >= 4 && first.starts_with("__") && first.ends_with("__");
}

std::optional<MemberName> split_name(std::string_view name) {
  if (is_metadata(name)) {
    return std::nullopt;
  }
  const size_t base = name.rfind('/') + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) {
    return std::nullopt;
  }
  MemberName parts{.key = name.substr(0, dot), .extension = std::string(name.substr(dot + 1))};
  std::ranges::transform(parts.extension, parts.extension.begin(), lower);
  return parts;
}

std::optional<int64_t> parse_label(std::span<const std::byte> content) {
  constexpr std::string_view kBlanks(" \t\r\n\f\v\0", 7);
  std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.starts_with('+') && !text.starts_with("+-")) {
    text.remove_prefix(1);
  }
  int64_t label = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), label);
  std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (rest.starts_with('.')) {
    rest.remove_prefix(std::min(rest.find_first_not_of('0', 1), rest.size()));
  }
  const bool reserved = label <= SampleLabels::kBroken;
  return fault == std::errc() && rest.empty() && !reserved ? std::optional(label) : std::nullopt;
}

void SampleLabels::widen() {
  wide_.reserve(narrow_.size());
  std::ranges::transform(narrow_, std::back_inserter(wide_), widened);
  narrow_ = {};
  is_wide_ = true;
}

void SampleLabels::add(int64_t label) {
  if (!is_wide_ && !fits_narrow(label)) {
    widen();
  }
  if (is_wide_) {
    wide_.push_back(label);
  } else {
    narrow_.push_back(narrowed(label));
  }
}

void SampleLabels::set_last(int64_t label) {
  is_wide_ ? wide_.pop_back() : narrow_.pop_back();
  add(label);
}

int64_t SampleLabels::at(size_t sample) const { return is_wide_ ? wide_[sample] : widened(narrow_[sample]); }

Bytes SampleLabels::memory() const {
  return static_cast<Bytes>(narrow_.capacity() * sizeof(int32_t) + wide_.capacity() * sizeof(int64_t));
}

void SampleLabels::shrink() {
  narrow_.shrink_to_fit();
  wide_.shrink_to_fit();
}

namespace {

// Groups the members of a shard into samples.
class Scan {
 public:
  Scan(TarBytes& bytes, const std::string& path) : bytes_(bytes), path_(path), tar_(bytes, path) {}

  Result<ShardSamples> run() {
    TarMember member;
    for (;;) {
      XRUN_ASSIGN(const bool more, tar_.next(member));
      if (!more) {
        break;
      }
      XRUN_TRY(add(member));
    }
    found_.bytes = bytes_.end();
    found_.end_block = static_cast<uint32_t>((tar_.position() + kTarBlock - 1) / kTarBlock);
    found_.no_end = !tar_.has_end_mark();
    XRUN_ASSIGN(found_.after_end, goes_on());
    found_.first_blocks.shrink_to_fit();
    found_.labels.shrink();
    return std::move(found_);
  }

 private:
  Status add(const TarMember& member) {
    found_.links += member.kind == TarMember::Kind::kLink ? 1 : 0;
    if (member.kind != TarMember::Kind::kFile) {
      return {};
    }
    const auto name = split_name(member.name);
    if (!name) {
      found_.other_members += is_metadata(member.name) ? 0 : 1;
      return {};
    }
    if (found_.first_blocks.empty() || name->key != key_) {
      begin_sample(member, name->key);
    }
    if (std::ranges::find(members_, name->extension) != members_.end()) {
      return content_error("XG0412",
                           {"{}: the sample `{}` has two members with the extension `{}`; the second one is at offset "
                            "{}",
                            path_, key_, name->extension, format_count(member.begin)},
                           "a key ends at the first dot of a file name: give the files other names, without dots in "
                           "their keys");
    }
    members_.push_back(name->extension);
    if (members_.size() > kMostMembers) {
      return content_error(
          "XG0412", {"{}: the sample `{}` has more than {} members", path_, key_, kMostMembers},
          "a key ends at the first dot of a file name: give the files names without dots in their keys");
    }
    if (std::ssize(members_) > found_.most_members) {
      found_.most_members = std::ssize(members_);
      found_.largest_sample = found_.samples() - 1;
    }
    count(name->extension);
    return name->extension == kLabelExtension ? add_label(member) : Status();
  }

  void begin_sample(const TarMember& member, std::string_view key) {
    key_ = key;
    members_.clear();
    found_.first_blocks.push_back(static_cast<uint32_t>(member.begin / kTarBlock));
    found_.labels.add(SampleLabels::kNone);
    if (keys_.size() < kMostKeys) {
      found_.split_keys += keys_.insert(std::hash<std::string_view>()(key)).second ? 0 : 1;
    }
  }

  Status add_label(const TarMember& member) {
    std::optional<int64_t> label;
    if (member.size <= kMostLabelBytes) {
      XRUN_ASSIGN(const auto content, bytes_.at(member.offset, member.size));
      label = parse_label(content);
    }
    found_.labels.set_last(label.value_or(SampleLabels::kBroken));
    found_.labelled += label ? 1 : 0;
    found_.largest_label = std::max(found_.largest_label, label.value_or(-1));
    return {};
  }

  void count(const std::string& extension) {
    const auto known = std::ranges::find(found_.extensions, extension, &ExtensionCount::name);
    if (known != found_.extensions.end()) {
      ++known->members;
    } else if (found_.extensions.size() < kMostExtensions) {
      found_.extensions.push_back({extension, 1});
    }
  }

  // Whether members follow the end mark, as in archives that were joined by `cat`. An archive ends with zeros up to a
  // multiple of 10,240 bytes.
  Result<bool> goes_on() {
    constexpr Bytes kMostPadding = 20 * kTarBlock;
    const Bytes end = std::min(tar_.position() + kMostPadding + kTarBlock, bytes_.end() - kTarBlock + 1);
    for (Bytes at = tar_.position(); at < end; at += kTarBlock) {
      XRUN_ASSIGN(const auto block, bytes_.at(at, kTarBlock));
      if (block[0] != std::byte{0}) {
        return is_tar_header(block);
      }
    }
    return false;
  }

  TarBytes& bytes_;
  const std::string& path_;
  TarReader tar_;
  ShardSamples found_;
  std::string key_;                   // key of the current sample
  std::vector<std::string> members_;  // extensions of its members
  std::unordered_set<size_t> keys_;   // hashes of the keys so far
};

}  // namespace

Result<ShardSamples> scan_shard(TarBytes& bytes, const std::string& path) { return Scan(bytes, path).run(); }

Result<ShardSamples> scan_shard(const std::string& path, StopFlag stop) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const OpenFile file(opened);
  XRUN_ASSIGN(const Bytes size, shard_bytes(file.get(), path));
  // Contents are skipped, so reading ahead would read the whole shard. An error has no effect on the result.
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  ShardFile bytes(file.get(), path, size, stop);
  return scan_shard(bytes, path);
}

}  // namespace xrun::runtime
