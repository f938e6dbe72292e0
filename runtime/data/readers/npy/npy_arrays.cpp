// Tests: tests/runtime/data/readers/npy/npy_test.cpp
#include "runtime/data/readers/npy/npy_arrays.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <memory>
#include <utility>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "runtime/data/readers/npy/npy_labels.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {
namespace {

using FilePtr = std::shared_ptr<const RandomFile>;

Result<FilePtr> open_file(const std::string& path) {
  XRUN_ASSIGN(RandomFile file, RandomFile::open(path));
  return FilePtr(std::make_shared<RandomFile>(std::move(file)));
}

bool is_file_name(const std::string& text) { return text.ends_with(".npy") || text.ends_with(".npz"); }

std::vector<std::string> names_of(const std::vector<ZipMember>& members) {
  std::vector<std::string> names;
  std::ranges::transform(members, std::back_inserter(names), &ZipMember::name);
  return names;
}

Result<const ZipMember*> find_member(const RandomFile& file, const std::vector<ZipMember>& members,
                                     const std::string& name) {
  const auto found = std::ranges::find(members, name, &ZipMember::name);
  if (found != members.end()) {
    return &*found;
  }
  return content_error("XG0413", {"{} has no array `{}`", file.path(), name}, nearest_names(name, names_of(members)));
}

// Finds the only array of an archive other than `labels`.
Result<const ZipMember*> only_member(const RandomFile& file, const std::vector<ZipMember>& members,
                                     const std::string& labels, std::string_view argument) {
  const ZipMember* only = nullptr;
  for (const ZipMember& member : members) {
    if (member.name == labels) {
      continue;
    }
    if (only != nullptr) {
      return content_error(
          "XG0413", {"{} has several arrays: {}", file.path(), fmt::join(names_of(members), ", ")},
          argument == "values"
              ? Text("say which one: values=\"{}\"", only->name)
              : Text("write the labels to a .npy file, or name an array of the archive of the values"));
    }
    only = &member;
  }
  if (only == nullptr) {
    return content_error("XG0412", {"{} has no arrays{}", file.path(), labels.empty() ? "" : " other than the labels"},
                         "write it with numpy.savez(path, values=x, labels=y)");
  }
  return only;
}

// Opens arrays of one source.
class Opener {
 public:
  Opener(const SourceSpec& spec, NpyFile::Extent extent, StopFlag stop)
      : args_(spec.reader.args),
        directory_(spec.directory),
        dtype_(args_.has("dtype") ? args_.text("dtype") : std::string()),
        extent_(extent),
        stop_(stop) {}

  Result<NpyArrays> open(const std::string& path, const std::string& labels) const {
    XRUN_ASSIGN(const FilePtr file, open_file(resolve_path(directory_, path)));
    XRUN_ASSIGN(const bool is_archive, is_npz(*file));
    const bool labels_apart = labels.empty() || is_file_name(labels);
    if (is_archive) {
      return from_archive(file, labels, labels_apart);
    }
    if (args_.has("values")) {
      return content_error("XG0413", {"`values` names an array of an archive, but {} holds one array", file->path()},
                           "leave `values` out");
    }
    XRUN_ASSIGN(NpyFile values, NpyFile::open(file, dtype_));
    if (!labels_apart) {
      return content_error("XG0413", {"`labels` is \"{}\", but {} holds one array", labels, file->path()},
                           {"name the file of the labels: labels=\"{}.npy\"", labels});
    }
    return with_labels_file(std::move(values), labels);
  }

 private:
  Result<NpyArrays> from_archive(const FilePtr& file, const std::string& labels, bool labels_apart) const {
    XRUN_ASSIGN(const auto members, list_npz(*file));
    const ZipMember* values = nullptr;
    if (args_.has("values")) {
      XRUN_ASSIGN(values, find_member(*file, members, args_.text("values")));
    } else {
      XRUN_ASSIGN(values, only_member(*file, members, labels_apart ? "" : labels, "values"));
    }
    XRUN_ASSIGN(NpyFile array, NpyFile::open_member(file, *values, dtype_, extent_, stop_));
    if (labels_apart) {
      return with_labels_file(std::move(array), labels);
    }
    XRUN_ASSIGN(const ZipMember* member, find_member(*file, members, labels));
    XRUN_ASSIGN(NpyFile numbers, NpyFile::open_member(file, *member, "", NpyFile::Extent::kWhole, stop_));
    return NpyArrays{std::move(array), std::move(numbers)};
  }

  Result<NpyArrays> with_labels_file(NpyFile values, const std::string& labels) const {
    if (labels.empty()) {
      return NpyArrays{std::move(values), std::nullopt};
    }
    XRUN_ASSIGN(const FilePtr file, open_file(resolve_path(directory_, labels)));
    XRUN_ASSIGN(const bool is_archive, is_npz(*file));
    if (!is_archive) {
      XRUN_ASSIGN(NpyFile numbers, NpyFile::open(file, ""));
      return NpyArrays{std::move(values), std::move(numbers)};
    }
    XRUN_ASSIGN(const auto members, list_npz(*file));
    XRUN_ASSIGN(const ZipMember* member, only_member(*file, members, "", "labels"));
    XRUN_ASSIGN(NpyFile numbers, NpyFile::open_member(file, *member, "", NpyFile::Extent::kWhole, stop_));
    return NpyArrays{std::move(values), std::move(numbers)};
  }

  const Attrs& args_;
  const std::string& directory_;
  std::string dtype_;
  NpyFile::Extent extent_;
  StopFlag stop_;
};

Status check_counts(const NpyArrays& arrays) {
  if (!arrays.labels) {
    return {};
  }
  XRUN_TRY(check_npy_labels(*arrays.labels));
  if (arrays.labels->samples() != arrays.values.samples()) {
    return content_error("XG0412",
                         {"{}: {} labels for {} samples in {}", arrays.labels->name(), arrays.labels->samples(),
                          arrays.values.samples(), arrays.values.name()},
                         "name the labels of these samples, or write both arrays again");
  }
  return {};
}

}  // namespace

Result<std::vector<NpyArrays>> open_npy_arrays(const SourceSpec& spec, NpyFile::Extent extent, StopFlag stop) {
  const auto& paths = spec.reader.args.texts("path");
  const auto labels = spec.reader.args.has("labels") ? spec.reader.args.texts("labels") : std::vector<std::string>();
  const bool one_name = labels.size() == 1 && !is_file_name(labels[0]);  // in each archive
  if (!labels.empty() && !one_name && labels.size() != paths.size()) {
    return content_error("XG0413", {"`path` names {} files, but `labels` names {}", paths.size(), labels.size()},
                         "name one file of labels for each file of samples, in their order");
  }
  const Opener opener(spec, extent, stop);
  std::vector<NpyArrays> all;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::string label = labels.empty() ? "" : labels[one_name ? 0 : i];
    XRUN_ASSIGN(NpyArrays arrays, opener.open(paths[i], label));
    XRUN_TRY(check_counts(arrays));
    all.push_back(std::move(arrays));
  }
  return all;
}

}  // namespace xrun::runtime
