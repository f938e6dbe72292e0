// Tests: tests/runtime/data/readers/webdataset/webdataset_test.cpp
#include "runtime/data/readers/webdataset/shard_report.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kManySamples = 1'000'000;  // whose headers take seconds to minutes to read
constexpr int64_t kCrowded = 100;            // members of a sample from which on its key is suspicious
constexpr size_t kMostNamed = 3;
constexpr size_t kMostListed = 8;

}  // namespace

void ShardReport::Count::add(int64_t more, const std::string& path) {
  if (more > 0 && count == 0) {
    first = path;
  }
  count += more;
}

void ShardReport::add(const std::string& path, const ShardSamples& shard, bool indexed, const std::string& fault) {
  ++shards_;
  samples_ += shard.samples();
  labelled_ += shard.labelled;
  largest_label_ = std::max(largest_label_, shard.largest_label);
  scanned_ += indexed ? 0 : shard.samples();
  if (!fault.empty()) {
    ++faulty_;
    if (faults_.size() < kMostNamed) {
      faults_.emplace_back(path, fault);
    }
  }
  for (const ExtensionCount& one : shard.extensions) {
    const auto known = std::ranges::find(extensions_, one.name, &ExtensionCount::name);
    if (known != extensions_.end()) {
      known->members += one.members;
    } else if (extensions_.size() < kMostExtensions) {
      extensions_.push_back(one);
    }
  }
  links_.add(shard.links, path);
  others_.add(shard.other_members, path);
  split_.add(shard.split_keys, path);
  no_end_.add(shard.no_end ? 1 : 0, path);
  after_end_.add(shard.after_end ? 1 : 0, path);
  crowded_.add(shard.most_members > kCrowded ? 1 : 0, path);
}

int64_t ShardReport::classes() const { return largest_label_ == INT64_MAX ? INT64_MAX : largest_label_ + 1; }

std::string ShardReport::describe() const {
  std::vector<ExtensionCount> most = extensions_;
  std::ranges::stable_sort(most, std::greater(), &ExtensionCount::members);
  std::string members;
  for (size_t i = 0; i < std::min(most.size(), kMostListed); ++i) {
    members += fmt::format("{}{} {}", i == 0 ? "" : ", ", most[i].name.empty() ? "without extension" : most[i].name,
                           format_count(most[i].members));
  }
  if (most.size() > kMostListed) {
    members += fmt::format(" and {} more", most.size() - kMostListed);
  }
  return fmt::format("webdataset: {}, {}, {}{}", counted(shards_, "shard"), counted(samples_, "sample"),
                     labelled_ > 0 ? counted(classes(), "class") : "no labels",
                     members.empty() ? "" : fmt::format(" ({})", members));
}

void ShardReport::warn(std::vector<Error>& all, const Count& count, std::string_view what, std::string_view help) {
  if (count.count > 0) {
    all.push_back(content_error("XG0442", {"{}: {}, the first in {}", what, format_count(count.count), count.first},
                                std::string(help)));
  }
}

std::vector<Error> ShardReport::warnings() const {
  std::vector<Error> all;
  if (faulty_ > 0) {
    std::string named;
    for (const auto& [path, fault] : faults_) {
      named += fmt::format("{}that of {} {}", named.empty() ? "" : ", ", path, fault);
    }
    all.push_back(
        content_error("XG0441",
                      {"{} not used, and the headers of the shards were read instead: {}",
                       faulty_ == 1 ? "1 index was" : fmt::format("{} indices were", format_count(faulty_)), named},
                      "write them again: xrun data index PATH"));
  } else if (scanned_ >= kManySamples) {
    all.push_back(content_error("XG0441",
                                {"{} are in shards without an index, so each start reads the headers of their members",
                                 counted(scanned_, "sample")},
                                "write indices once: xrun data index PATH"));
  }
  warn(all, links_, "links in tar shards, which are not followed", "store the files themselves: tar --dereference");
  warn(all, others_, "files that belong to no sample, since their names have no extension or begin with a dot",
       "give samples names such as 000017.jpg, or remove these files");
  warn(all, split_, "samples with the key of an earlier sample of the shard, and another key in between",
       "members of a sample must follow each other: tar --sort=name");
  warn(all, no_end_, "shards without an end mark, which may lack members", "compare them with the originals");
  warn(all, after_end_, "shards with members after the end mark, which are not read",
       "archives that were joined by `cat` are read only by `tar -i`: name the parts instead");
  warn(all, crowded_, fmt::format("shards with a sample of more than {} members", kCrowded),
       "a key ends at the first dot of a file name: give the files names without dots in their keys");
  if (labelled_ > 0 && labelled_ < samples_) {
    all.push_back(content_error("XG0442",
                                {"{} of the {} have no valid label in a `.cls` member",
                                 format_count(samples_ - labelled_), counted(samples_, "sample")},
                                "they count as broken samples (`max_bad`) where `cls` is read"));
  }
  return all;
}

}  // namespace xrun::runtime
