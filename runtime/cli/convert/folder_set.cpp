// A folder with a directory for each class. The directory has the name of the class; without names it is the number,
// with as many digits as the largest one, so that the byte order of directories is that of labels.
// Tests: tests/runtime/cli/convert/convert_test.cpp
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/os/io.h"
#include "runtime/cli/convert/sample_writer.h"
#include "runtime/data/readers/left_out.h"

namespace xrun::cli {
namespace {

namespace fs = std::filesystem;

// Why a class cannot be a directory below the folder; empty if it can be one.
std::string_view fault_of(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) {
    return "has a byte of 0";
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return "is not the path of a directory below the folder";
    }
    if (part.size() > 255) {
      return "has a part of more than 255 bytes";
    }
    if (runtime::is_tool_directory(part)) {
      return "is a directory that `folder` leaves out, since tools make such directories";
    }
    begin = end + 1;
  }
  return "";
}

Error unwritten(const std::string& path, int fault) {
  return world_error("XG0901", {"cannot write {}: {}", path, std::strerror(fault)},
                     "choose another place, or free some space");
}

class FolderSet final : public SampleWriter {
 public:
  FolderSet(std::string folder, const ConvertTarget& target, const ConvertedSource& source)
      : folder_(std::move(folder)),
        name_(target.names[0]),
        source_(source),
        digits_(static_cast<int>(std::to_string(std::max<int64_t>(source.classes - 1, 0)).size())) {}

  Status make() {
    const std::string path = folder_ + "/" + name_;
    const int fault = system_io().make_directory(path);
    return fault == 0 ? Status() : Status(unwritten(path, fault));
  }

  Status add(int64_t /*file*/, const ConvertedSample& sample) override {
    std::string path = folder_ + "/" + name_;
    if (sample.label) {
      if (*sample.label < 0 || *sample.label >= source_.classes) {
        return content_error("XG0402",
                             {"{} has the label {}, but the source has {}", sample.name, *sample.label,
                              counted(source_.classes, "class")},
                             "convert to records or tar shards, which keep such labels");
      }
      path += "/" + directory_of(*sample.label);
      if (made_.insert(*sample.label).second) {
        std::error_code fault;
        fs::create_directories(path, fault);
        if (fault) {
          return unwritten(path, fault.value());
        }
      }
    }
    return write(fmt::format("{}/{}.{}", path, sample_key(number_++), sample.extension), sample.picture);
  }

  // The pictures are not synced one by one, which would take milliseconds for each.
  Status finish() override {
    const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fault = folder < 0 || ::syncfs(folder) != 0 ? errno : 0;
    if (folder >= 0) {
      ::close(folder);
    }
    return fault == 0 ? Status() : Status(unwritten(folder_, fault));
  }
  std::vector<std::string> files() const override { return {name_}; }
  Bytes bytes() const override { return bytes_; }
  std::optional<Error> warning() const override {
    const int64_t absent = made_.empty() ? 0 : source_.classes - std::ssize(made_);
    const bool is_sorted = std::ranges::is_sorted(source_.class_names);
    if (absent == 0 && is_sorted) {
      return std::nullopt;
    }
    return content_error(
        "XG0944",
        {"a folder numbers its classes in the byte order of their directories, so the labels change: {}",
         is_sorted ? fmt::format("{} of {} have no sample", absent, counted(source_.classes, "class"))
                   : "the names of the classes are in another order"},
        "the names stay; records and tar shards keep the numbers, too");
  }

 private:
  std::string directory_of(int64_t label) const {
    return source_.class_names.empty() ? fmt::format("{:0{}}", label, digits_)
                                       : source_.class_names[static_cast<size_t>(label)];
  }

  Status write(const std::string& path, std::span<const std::byte> bytes) {
    Io& io = system_io();
    const int file = io.open(path, O_WRONLY | O_CREAT | O_EXCL);
    if (file < 0) {
      return unwritten(path, -file);
    }
    int fault = io.write(file, bytes);
    const int unclosed = io.close(file);
    fault = fault == 0 ? unclosed : fault;
    bytes_ += static_cast<Bytes>(bytes.size());
    return fault == 0 ? Status() : Status(unwritten(path, fault));
  }

  std::string folder_;
  std::string name_;
  const ConvertedSource& source_;
  int digits_;
  std::set<int64_t> made_;  // labels whose directory exists
  int64_t number_ = 0;      // number of the next sample
  Bytes bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<SampleWriter>> write_folder(const std::string& folder, const ConvertTarget& target,
                                                   const ConvertedSource& source) {
  for (const std::string& name : source.class_names) {
    if (const std::string_view fault = fault_of(name); !fault.empty()) {
      return content_error("XG0943", {"the name of the class `{}` {}", name, fault},
                           "convert to records or tar shards, which take every name");
    }
  }
  auto writer = std::make_unique<FolderSet>(folder, target, source);
  XRUN_TRY(writer->make());
  return std::unique_ptr<SampleWriter>(std::move(writer));
}

}  // namespace xrun::cli
