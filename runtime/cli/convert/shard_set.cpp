// Tar shards in the layout of WebDataset: KEY.jpg and KEY.cls for each sample.
#include <fmt/format.h>

#include "graph/base/units.h"
#include "runtime/cli/convert/sample_writer.h"
#include "runtime/formats/output_file.h"
#include "runtime/formats/records/tar_writer.h"

namespace xrun::cli {
namespace {

using runtime::OutputFile;

class ShardSet final : public SampleWriter {
 public:
  ShardSet(std::string folder, const ConvertTarget& target) : folder_(std::move(folder)), target_(target) {}

  Status add(int64_t file, const ConvertedSample& sample) override {
    while (opened_ <= file) {
      XRUN_TRY(close());
      XRUN_TRY(open());
    }
    const std::string key = sample_key(number_++);
    members_.clear();
    runtime::append_tar_file(fmt::format("{}.{}", key, sample.extension), sample.picture, members_);
    if (sample.label) {
      const std::string label = std::to_string(*sample.label);
      runtime::append_tar_file(key + ".cls", std::as_bytes(std::span(label)), members_);
    }
    return shard_->write(members_);
  }

  Status finish() override {
    while (opened_ < std::ssize(target_.names)) {
      XRUN_TRY(close());
      XRUN_TRY(open());
    }
    return close();
  }

  std::vector<std::string> files() const override { return target_.names; }
  Bytes bytes() const override { return bytes_; }

 private:
  Status open() {
    XRUN_ASSIGN(shard_, OutputFile::create(folder_ + "/" + target_.names[static_cast<size_t>(opened_++)]));
    return {};
  }
  Status close() {
    if (shard_ == nullptr) {
      return {};
    }
    members_.clear();
    runtime::append_tar_end(members_);
    XRUN_TRY(shard_->write(members_));
    XRUN_TRY(shard_->finish());
    bytes_ += shard_->bytes();
    shard_.reset();
    return {};
  }

  std::string folder_;
  const ConvertTarget& target_;
  int64_t opened_ = 0;  // number of shards that were opened
  int64_t number_ = 0;  // number of the next sample in all shards
  Bytes bytes_ = 0;     // size of complete shards
  std::unique_ptr<OutputFile> shard_;
  std::vector<std::byte> members_;
};

}  // namespace

std::unique_ptr<SampleWriter> write_shards(const std::string& folder, const ConvertTarget& target,
                                           const ConvertedSource&) {
  return std::make_unique<ShardSet>(folder, target);
}

}  // namespace xrun::cli
