// Files of records with their indices. A list is added if labels may reach 2^24, from where on an f32 in a record does
// not hold every label.
// Tests: tests/runtime/cli/convert/convert_test.cpp
#include <fmt/format.h>
#include <limits>

#include "graph/base/errors.h"
#include "runtime/cli/convert/sample_writer.h"
#include "runtime/formats/output_file.h"
#include "runtime/formats/records/image_record.h"
#include "runtime/formats/records/record_writer.h"

namespace xrun::cli {
namespace {

using runtime::OutputFile;

class RecordSet final : public SampleWriter {
 public:
  RecordSet(std::string folder, const ConvertTarget& target, const ConvertedSource& source)
      : folder_(std::move(folder)),
        target_(target),
        has_list_(static_cast<double>(source.classes) > double{runtime::kMostLabel}) {}

  Status add(int64_t file, const ConvertedSample& sample) override {
    while (opened_ <= file) {
      XRUN_TRY(close());
      XRUN_TRY(open());
    }
    const int64_t label = sample.label.value_or(-1);
    if (label > std::numeric_limits<int32_t>::max()) {
      return content_error(
          "XG0405", {"{} has the label {}, but lists of records have labels up to 2 147 483 647", sample.name, label},
          "convert to tar shards, whose labels are whole numbers of 64 bits");
    }
    const auto narrow = static_cast<float>(label);
    XRUN_TRY(index_->write(runtime::index_line(key_, records_->bytes())));
    if (list_ != nullptr) {
      const std::string path = fmt::format("{}.{}", sample_key(key_), sample.extension);
      XRUN_TRY(list_->write(runtime::list_line(key_, label, path)));
    }
    record_.clear();
    runtime::append_image_record(static_cast<uint64_t>(key_),
                                 sample.labels.empty() ? std::span(&narrow, 1) : sample.labels, sample.picture,
                                 record_);
    ++key_;
    return records_->write(record_);
  }

  Status finish() override {
    while (opened_ < std::ssize(target_.names)) {
      XRUN_TRY(close());
      XRUN_TRY(open());
    }
    return close();
  }

  // The records follow their texts, so that a file of records that has its name is complete.
  std::vector<std::string> files() const override {
    std::vector<std::string> all;
    for (const std::string& name : target_.names) {
      if (has_list_) {
        all.push_back(ConvertTarget::with_extension(name, ".lst"));
      }
      all.push_back(ConvertTarget::with_extension(name, ".idx"));
      all.push_back(name);
    }
    return all;
  }
  Bytes bytes() const override { return bytes_; }

 private:
  Status open() {
    const std::string path = folder_ + "/" + target_.names[static_cast<size_t>(opened_++)];
    XRUN_ASSIGN(records_, OutputFile::create(path));
    XRUN_ASSIGN(index_, OutputFile::create(ConvertTarget::with_extension(path, ".idx")));
    if (has_list_) {
      XRUN_ASSIGN(list_, OutputFile::create(ConvertTarget::with_extension(path, ".lst")));
    }
    key_ = 0;
    return {};
  }
  Status close() {
    for (std::unique_ptr<OutputFile>* file : {&list_, &index_, &records_}) {
      if (*file != nullptr) {
        XRUN_TRY((*file)->finish());
        bytes_ += (*file)->bytes();
        file->reset();
      }
    }
    return {};
  }

  std::string folder_;
  const ConvertTarget& target_;
  bool has_list_;
  int64_t opened_ = 0;  // number of files that were opened
  int64_t key_ = 0;     // key of the next record in its file
  Bytes bytes_ = 0;     // size of complete files
  std::unique_ptr<OutputFile> records_, index_, list_;
  std::vector<std::byte> record_;
};

}  // namespace

std::unique_ptr<SampleWriter> write_records(const std::string& folder, const ConvertTarget& target,
                                            const ConvertedSource& source) {
  return std::make_unique<RecordSet>(folder, target, source);
}

}  // namespace xrun::cli
