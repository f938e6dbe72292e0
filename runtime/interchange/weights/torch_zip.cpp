// A zip archive of PyTorch has all members in one folder, whose name is free:
//   NAME/data.pkl    a pickle in which a tensor refers to its storage by a key
//   NAME/data/KEY    the bytes of a storage, stored without compression
//   NAME/byteorder   "little" or "big"; without it, little
// An archive of TorchScript also has NAME/constants.pkl. The headers before members have no sizes, so only the central
// directory is used. After torch.serialization.set_crc32_options(False), checksums are 0. A member that another program
// has compressed is unpacked into memory.
// Source: torch/serialization.py and caffe2/serialize/inline_container.cc of PyTorch 2.13.
#include "runtime/interchange/weights/torch_zip.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/open_file.h"
#include "runtime/formats/zip_directory.h"
#include "runtime/interchange/weights/pickled_weights.h"

namespace xrun::runtime {
namespace {

class TorchZip {
 public:
  TorchZip(std::shared_ptr<const RandomFile> file, std::vector<ZipMember> members, StopFlag stop)
      : file_(std::move(file)), stop_(stop) {
    for (ZipMember& member : members) {
      std::string name = member.name;
      members_.emplace(std::move(name), std::move(member));
    }
  }

  Result<std::unique_ptr<WeightFile>> open() {
    XRUN_TRY(find_folder());
    XRUN_ASSIGN(const auto input, pickle_input());
    XRUN_ASSIGN(const bool big_endian, is_big_endian());
    XRUN_ASSIGN(const Pickle pickle, parse_pickle(*input, 0, weight_pickle_rules(), stop_));
    const PickledSources sources{.input = input,
                                 .memory = memory_,
                                 .storage = [this](const PickledStorage& storage) { return storage_of(storage); },
                                 .big_endian = big_endian};
    WeightContents contents{.path = file_->path()};
    XRUN_TRY(add_pickled_tensors(pickle, sources, contents));
    return make_stored_weights(std::move(contents), "PyTorch, zip", stop_);
  }

 private:
  const ZipMember* find(const std::string& name) const {
    const auto found = members_.find(folder_ + name);
    return found == members_.end() ? nullptr : &found->second;
  }

  std::string path_of(const ZipMember& member) const { return fmt::format("{} in {}", member.name, file_->path()); }

  Status find_folder() {
    constexpr std::string_view kPickle = "data.pkl";
    const auto found = std::ranges::find_if(members_, [&](const auto& member) {
      const std::string& name = member.first;
      const size_t slash = name.find('/');
      return name == kPickle || (slash != std::string::npos && name.substr(slash + 1) == kPickle);
    });
    if (found == members_.end()) {
      return content_error("XG0412", {"{}: a zip archive without data.pkl, so PyTorch did not write it", file_->path()},
                           "name a file that torch.save(model.state_dict(), FILE) has written");
    }
    folder_ = found->first.substr(0, found->first.size() - kPickle.size());
    if (find("constants.pkl") != nullptr) {
      return content_error("XG0407", {"{} is an archive of TorchScript, which has the code of a model", file_->path()},
                           {"no code of a file is run; save the tensors alone: in Python, "
                            "torch.save(torch.jit.load(\"{}\").state_dict(), \"weights.pth\")",
                            file_->path()});
    }
    return {};
  }

  // The bytes of a member, which a stored one has in place.
  Result<Source> source_of(const ZipMember& member) {
    if (!member.is_deflated) {
      XRUN_ASSIGN(const Bytes offset, zip_data_offset(*file_, member));
      return member.crc == 0 ? bytes_of_file(file_, offset, member.bytes)
                             : checked_bytes_of_file(file_, offset, member.bytes, member.crc, path_of(member), stop_);
    }
    XRUN_TRY(check_unpacked(member));
    return unpacked_bytes(memory_, path_of(member), member.bytes, [file = file_, member, stop = stop_] {
      return unpack_member(*file, member, member.bytes, stop);
    });
  }

  Status check_unpacked(const ZipMember& member) const {
    if (member.bytes <= kMostUnpacked) {
      return {};
    }
    return content_error("XG0412",
                         {"{}: compressed, and {} when unpacked; at most {} is unpacked", path_of(member),
                          format_bytes(member.bytes), format_bytes(kMostUnpacked)},
                         "save the file with torch.save, which compresses nothing");
  }

  Result<std::shared_ptr<const PickleInput>> pickle_input() {
    const ZipMember& member = *find("data.pkl");
    if (member.is_deflated) {
      XRUN_TRY(check_unpacked(member));
      XRUN_ASSIGN(auto bytes, unpack_member(*file_, member, member.bytes, stop_));
      return pickle_of_bytes(std::move(bytes), path_of(member));
    }
    XRUN_ASSIGN(const Bytes offset, zip_data_offset(*file_, member));
    return pickle_in_file(file_, offset, member.bytes, path_of(member));
  }

  Result<bool> is_big_endian() {
    const ZipMember* const member = find("byteorder");
    if (member == nullptr) {
      return false;
    }
    XRUN_ASSIGN(const Source source, source_of(*member));
    std::string text(static_cast<size_t>(std::min<Bytes>(member->bytes, 16)), '\0');
    XRUN_TRY(source->read(0, std::as_writable_bytes(std::span(text))));
    if (text != "little" && text != "big") {
      return broken_file(path_of(*member), "neither `little` nor `big`");
    }
    return text == "big";
  }

  Result<Source> storage_of(const PickledStorage& storage) {
    const auto known = storages_.find(storage.key);
    if (known != storages_.end()) {
      return known->second;
    }
    const ZipMember* const member = find("data/" + storage.key);
    if (member == nullptr) {
      return broken_file(file_->path(), fmt::format("the storage {}data/{} is missing", folder_, storage.key));
    }
    if (member->bytes < storage.bytes) {
      return broken_file(path_of(*member),
                         fmt::format("{} bytes, but its tensors need {}", member->bytes, storage.bytes));
    }
    XRUN_ASSIGN(const Source source, source_of(*member));
    storages_.emplace(storage.key, source);
    return source;
  }

  std::shared_ptr<const RandomFile> file_;
  StopFlag stop_;
  std::map<std::string, ZipMember> members_;
  std::string folder_;  // "archive/"
  std::shared_ptr<UnpackedBytes> memory_ = make_unpacked_bytes();
  std::map<std::string, Source> storages_;
};

}  // namespace

Result<std::unique_ptr<WeightFile>> open_torch_zip(std::shared_ptr<const RandomFile> file, StopFlag stop) {
  XRUN_ASSIGN(auto members, read_zip_directory(*file));
  return TorchZip(std::move(file), std::move(members), stop).open();
}

}  // namespace xrun::runtime
