// Tests: tests/runtime/data/readers/webdataset/shard_index_test.cpp
#include "runtime/data/readers/webdataset/shard_index.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "graph/os/durable.h"
#include "graph/os/regular_file.h"
#include "runtime/data/readers/webdataset/shard_file.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"
#include "shard_index_generated.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kMagic = "XIDX";
constexpr size_t kDigest = 16;
constexpr Bytes kLargestIndex = 2 * kGiB - 64 * kKiB;  // the limit of FlatBuffers, without the small fields
constexpr int64_t kMostSamples = int64_t{1} << 27;     // fit into it with wide labels

Error unusable(const std::string& name, std::string_view why) {
  return content_error("XG0441", {"{} {}", name, why}, "write it again: xrun data index PATH");
}

// The error for an index that cannot be stored; `shard` names it.
Error too_large(const std::string& shard, int64_t samples) {
  return content_error("XG0441", {"{} has {} samples, more than an index can hold", shard, format_count(samples)},
                       "write smaller shards");
}

Result<ShardProbe> probe_of(int file, const std::string& shard, const ShardSamples& samples) {
  const size_t count = samples.first_blocks.size();
  if (count == 0) {
    return xxh128_bytes({});
  }
  std::array<std::byte, 3 * kTarBlock> headers;
  size_t done = 0;
  for (const size_t sample : {size_t{0}, count / 2, count - 1}) {
    const auto to = std::span(headers).subspan(done, static_cast<size_t>(kTarBlock));
    XRUN_TRY(read_at(file, shard, samples.begin_of(sample), to));
    done += to.size();
  }
  return xxh128_bytes(headers);
}

// Checks what the verifier of FlatBuffers cannot know.
bool is_consistent(const fb::ShardIndex& from) {
  const auto* blocks = from.first_blocks();
  const size_t samples = blocks == nullptr ? 0 : blocks->size();
  const size_t narrow = from.labels() == nullptr ? 0 : from.labels()->size();
  const size_t wide = from.wide_labels() == nullptr ? 0 : from.wide_labels()->size();
  if (from.probe() == nullptr || from.probe()->size() != sizeof(ShardProbe) || narrow + wide != samples ||
      (narrow > 0 && wide > 0) || from.shard_bytes() < 0 ||
      from.end_block() > (static_cast<uint64_t>(from.shard_bytes()) + kTarBlock - 1) / kTarBlock) {
    return false;
  }
  if (wide > 0 && reinterpret_cast<uintptr_t>(from.wide_labels()->data()) % alignof(int64_t) != 0) {
    return false;
  }
  for (size_t i = 0; i < samples; ++i) {
    const auto at = static_cast<uint32_t>(i);
    if (blocks->Get(at) >= (i + 1 < samples ? blocks->Get(at + 1) : from.end_block())) {
      return false;
    }
  }
  return from.extensions() == nullptr || from.extensions()->size() <= kMostExtensions;
}

template <class Value>
std::vector<Value> values_of(const flatbuffers::Vector<Value>* stored) {
  return stored == nullptr ? std::vector<Value>() : std::vector<Value>(stored->begin(), stored->end());
}

// REQUIRES: is_consistent(from).
ShardIndex decoded(const fb::ShardIndex& from) {
  ShardIndex index;
  ShardSamples& to = index.samples;
  std::memcpy(index.probe.data(), from.probe()->data(), sizeof(ShardProbe));
  to.bytes = from.shard_bytes();
  to.end_block = from.end_block();
  to.first_blocks = values_of(from.first_blocks());
  to.labels = from.wide_labels() != nullptr ? SampleLabels(values_of(from.wide_labels()))
                                            : SampleLabels(values_of(from.labels()));
  for (size_t i = 0; i < to.labels.size(); ++i) {
    const int64_t label = to.labels.at(i);
    to.largest_label = std::max(to.largest_label, label);
    to.labelled += label == SampleLabels::kNone || label == SampleLabels::kBroken ? 0 : 1;
  }
  if (from.extensions() != nullptr) {
    for (const fb::Extension* one : *from.extensions()) {
      to.extensions.push_back({one->name() == nullptr ? "" : one->name()->str(), one->members()});
    }
  }
  to.other_members = from.other_members();
  to.links = from.links();
  to.most_members = from.most_members();
  to.largest_sample = from.largest_sample();
  to.split_keys = from.split_keys();
  to.no_end = from.no_end();
  to.after_end = from.after_end();
  return index;
}

// The content of an index file; nullopt, with a reason, if it cannot be read.
std::optional<std::vector<std::byte>> read_index(const std::string& path, std::string& fault, timespec& changed) {
  const int opened = open_regular(path);
  if (opened < 0) {
    fault = opened == -ENOENT ? "" : fmt::format("cannot be read: {}", std::strerror(-opened));
    return std::nullopt;
  }
  const OpenFile file(opened);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || info.st_size > kLargestIndex) {
    fault = "is larger than any index";
    return std::nullopt;
  }
  changed = info.st_mtim;
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  if (const Status read = read_at(file.get(), path, 0, bytes); !read.ok()) {
    fault = "cannot be read";
    return std::nullopt;
  }
  return bytes;
}

}  // namespace

std::string index_path(const std::string& shard) {
  constexpr std::string_view kTar = ".tar";
  return shard.substr(0, shard.size() - (shard.ends_with(kTar) ? kTar.size() : 0)) + ".xidx";
}

std::vector<std::byte> index_bytes(const ShardIndex& index) {
  const ShardSamples& from = index.samples;
  flatbuffers::FlatBufferBuilder builder(from.first_blocks.size() * 8 + 1024);
  std::vector<flatbuffers::Offset<fb::Extension>> extensions;
  for (const ExtensionCount& one : from.extensions) {
    extensions.push_back(fb::CreateExtension(builder, builder.CreateString(one.name), one.members));
  }
  const auto blocks = builder.CreateVector(from.first_blocks);
  const auto narrow = from.labels.narrow();
  const auto wide = from.labels.wide();
  const auto labels = wide.empty() ? builder.CreateVector(narrow.data(), narrow.size()) : 0;
  const auto wide_labels = wide.empty() ? 0 : builder.CreateVector(wide.data(), wide.size());
  const auto probe = builder.CreateVector(reinterpret_cast<const uint8_t*>(index.probe.data()), index.probe.size());
  const auto counts = builder.CreateVector(extensions);
  fb::ShardIndexBuilder root(builder);
  root.add_schema(kShardIndexSchema);
  root.add_shard_bytes(from.bytes);
  root.add_probe(probe);
  root.add_end_block(from.end_block);
  root.add_first_blocks(blocks);
  root.add_labels(labels);
  root.add_wide_labels(wide_labels);
  root.add_extensions(counts);
  root.add_other_members(from.other_members);
  root.add_links(from.links);
  root.add_most_members(from.most_members);
  root.add_largest_sample(from.largest_sample);
  root.add_split_keys(from.split_keys);
  root.add_no_end(from.no_end);
  root.add_after_end(from.after_end);
  fb::FinishShardIndexBuffer(builder, root.Finish());
  const auto made = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  std::vector<std::byte> bytes(made.begin(), made.end());
  const auto digest = xxh128_bytes(bytes);
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

Result<ShardIndex> parse_index(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < 8 + kDigest || static_cast<Bytes>(bytes.size()) > kLargestIndex ||
      std::memcmp(bytes.data() + 4, kMagic.data(), kMagic.size()) != 0) {
    return unusable(name, "is not an index of a tar shard");
  }
  const auto content = bytes.first(bytes.size() - kDigest);
  if (!std::ranges::equal(bytes.subspan(content.size()), xxh128_bytes(content))) {
    return unusable(name, "is damaged: its digest does not match");
  }
  const auto* data = reinterpret_cast<const uint8_t*>(content.data());
  flatbuffers::Verifier verifier(data, content.size());
  if (!fb::VerifyShardIndexBuffer(verifier)) {
    return unusable(name, "is damaged");
  }
  const fb::ShardIndex& stored = *fb::GetShardIndex(data);
  if (stored.schema() != kShardIndexSchema) {
    return unusable(name,
                    fmt::format("has schema {}; this version reads schema {}", stored.schema(), kShardIndexSchema));
  }
  if (!is_consistent(stored)) {
    return unusable(name, "is damaged");
  }
  return decoded(stored);
}

Result<IndexedSamples> load_index(const std::string& shard) {
  IndexedSamples found;
  XRUN_ASSIGN(const int opened, open_ordinary(shard));
  const OpenFile file(opened);
  timespec written{};
  const auto bytes = read_index(index_path(shard), found.fault, written);
  if (!bytes) {
    return found;
  }
  auto index = parse_index(*bytes, index_path(shard));
  if (!index.ok()) {
    found.fault = index.error().message.substr(index_path(shard).size() + 1);
    return found;
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return file_error(shard, errno);
  }
  const auto probe = info.st_size == index->samples.bytes ? probe_of(file.get(), shard, index->samples)
                                                          : Result<ShardProbe>(ShardProbe{});
  if (!probe.ok() || info.st_size != index->samples.bytes || *probe != index->probe) {
    found.fault = "belongs to another shard, or to an older state of this one";
    return found;
  }
  found.older = std::pair(info.st_mtim.tv_sec, info.st_mtim.tv_nsec) > std::pair(written.tv_sec, written.tv_nsec);
  found.samples = std::move(index->samples);
  return found;
}

Status save_index(const std::string& shard, ShardSamples samples) {
  if (samples.samples() > kMostSamples) {
    return too_large(shard, samples.samples());
  }
  XRUN_ASSIGN(const int opened, open_ordinary(shard));
  const OpenFile file(opened);
  ShardIndex index{.samples = std::move(samples)};
  XRUN_ASSIGN(index.probe, probe_of(file.get(), shard, index.samples));
  const std::vector<std::byte> bytes = index_bytes(index);
  const std::span<const std::byte> all = bytes;
  Status written = replace_file(index_path(shard), Pieces(&all, 1),
                                {.name = "index", .code = "XG0441", .offset = 4, .magic = kMagic});
  if (!written.ok()) {
    Error error = std::move(written).error();
    error.help = error.kind == ErrorKind::kUsage ? "an index belongs next to its shard: move that file away"
                                                 : "make the directory of the shard writable, or free some space";
    return error;
  }
  return {};
}

}  // namespace xrun::runtime
