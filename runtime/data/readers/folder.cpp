// Opening a source has four steps:
//   1. List the files of each path in turn. Record each picture and its directory, and count all other files. Pictures
//      of archives are unpacked into memory at once, since libarchive reads the entries of an archive only in order.
//   2. Sort the pictures of each path by name, so that their order does not depend on the file system.
//   3. Leave out pictures without a directory if other pictures have one; then number the directories as classes.
//   4. If only the header is wanted, read the starts of those archive entries that a plan examines.
#include "runtime/data/readers/folder.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <sys/stat.h>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/readers/directory_walk.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/glob.h"
#include "runtime/data/readers/left_out.h"
#include "runtime/data/readers/natural_order.h"
#include "runtime/data/readers/picture_files.h"
#include "runtime/device/host.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kLargestArchive = 16 * kGiB;  // limit for the total size of pictures from archives

struct PictureFile {
  size_t root = 0;    // index of the given path that contains the picture
  std::string name;   // path below the root
  std::string why;    // reason why the archive entry is broken; empty: it is not broken
  size_t offset = 0;  // offset of the content in the bytes from archives
  size_t bytes = 0;   // length of that content; for open_header, length of the entry's start, or 0 if it was not read
  int64_t label = 0;
};

struct Root {
  std::string path;
  bool archive = false;
  std::string inner;  // folder inside the archive, ending in '/' or empty
};

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view directory_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : path.substr(0, slash);
}

// A path that does not exist may lead into an archive, such as "a.zip/train".
Result<Root> find_root(const std::string& path) {
  Root root{.path = path};
  struct stat info {};
  while (stat(root.path.c_str(), &info) != 0) {
    const int error = errno;
    const size_t slash = root.path.rfind('/');
    if ((error != ENOENT && error != ENOTDIR) || slash == std::string::npos || slash == 0) {
      return file_error(path, error);
    }
    root.path.resize(slash);
  }
  root.archive = S_ISREG(info.st_mode);
  if (root.path.size() < path.size()) {
    if (!root.archive) {
      return file_error(path, ENOENT);
    }
    root.inner = path.substr(root.path.size() + 1) + "/";
  }
  return root;
}

class FolderReader final : public Reader {
 public:
  // `header`: read only the names of archive entries, and the starts of the entries in looked_samples.
  FolderReader(StopFlag stop, size_t most_pictures, bool header)
      : stop_(stop), most_pictures_(most_pictures), header_(header) {}

  Status load(const std::vector<std::string>& paths, const Glob& match) {
    for (const std::string& path : paths) {
      XRUN_ASSIGN(Root root, find_root(path));
      roots_.push_back(std::move(root));
      const size_t first = pictures_.size();
      XRUN_TRY(roots_.back().archive ? load_archive(match) : load_directory(match));
      std::sort(pictures_.begin() + static_cast<ptrdiff_t>(first), pictures_.end(),
                [](const PictureFile& a, const PictureFile& b) { return a.name < b.name; });
    }
    leave_out_strays();
    int64_t number = 0;
    for (auto& [name, label] : classes_) {
      label = number++;
      names_.push_back(name);
    }
    for (PictureFile& picture : pictures_) {
      picture.label = classes_.find(directory_of(picture.name))->second;
    }
    if (header_) {
      XRUN_TRY(load_starts());
    }
    bytes_.shrink_to_fit();
    const TensorType text{.dtype = DType::kU8, .dims = {kBatch, 0}};
    fields_ = {
        {"file", text, true}, {"label", {.dtype = DType::kI64, .dims = {kBatch}, .classes = number}}, {"name", text}};
    return {};
  }

  int64_t samples() const override { return static_cast<int64_t>(pictures_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return static_cast<int64_t>(names_.size()); }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const PictureFile& picture = pictures_[static_cast<size_t>(sample)];
    if (field == 1) {
      out.set_integer(DType::kI64, picture.label);
      return {};
    }
    if (field == 2) {
      const std::array<int64_t, 1> shape{static_cast<int64_t>(picture.name.size())};
      out.set_view(DType::kU8, shape, std::as_bytes(std::span(picture.name)));
      return {};
    }
    if (!picture.why.empty()) {
      return broken_sample(picture.why);
    }
    if (!roots_[picture.root].archive) {
      return read_encoded(roots_[picture.root].path + "/" + picture.name, header_, out);
    }
    const std::array<int64_t, 1> shape{static_cast<int64_t>(picture.bytes)};
    out.set_view(DType::kU8, shape, std::span(bytes_).subspan(picture.offset, picture.bytes));
    return {};
  }

  bool has_labels() const override { return names_.size() != 1 || !names_[0].empty(); }
  std::string class_name(int64_t label) const override { return names_[static_cast<size_t>(label)]; }
  std::string sample_name(int64_t sample) const override {
    const PictureFile& picture = pictures_[static_cast<size_t>(sample)];
    return roots_[picture.root].path + "/" + roots_[picture.root].inner + picture.name;
  }
  std::vector<int64_t> listing() const override {
    std::vector<int64_t> order(pictures_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int64_t a, int64_t b) {
      const PictureFile& one = pictures_[static_cast<size_t>(a)];
      const PictureFile& other = pictures_[static_cast<size_t>(b)];
      return one.root != other.root ? one.root < other.root : comes_before(one.name, other.name);
    });
    return order;
  }
  std::string describe() const override {
    return fmt::format("folder: {}, {}{}", counted(samples(), "image"), counted(classes(), "class"),
                       left_out_.describe());
  }
  Bytes memory() const override {
    return (header_ ? unpacked_ : static_cast<Bytes>(bytes_.capacity())) +
           static_cast<Bytes>(pictures_.capacity() * sizeof(PictureFile));
  }
  std::vector<Error> warnings() const override { return left_out_.warnings(); }

 private:
  std::string path_in_source(std::string_view name) const { return roots_.back().inner + std::string(name); }

  // Records a file; if it is a picture, also its class. Returns true if the file is a sample.
  Result<bool> note(std::string_view name, const Glob& match) {
    if (!is_picture_name(name)) {
      if (!is_hidden_file(name)) {
        left_out_.others.add(path_in_source(name));
      }
      return false;
    }
    const std::string_view directory = directory_of(name);
    if (classes_.find(directory) == classes_.end()) {
      classes_.emplace(directory, 0);
    }
    if (!match.matches(base_of(name))) {
      return false;
    }
    if (pictures_.size() >= most_pictures_) {
      return content_error(
          "XG0412",
          {"{} is one picture more than the {} that a source may have", roots_.back().path + "/" + path_in_source(name),
           format_count(static_cast<int64_t>(most_pictures_))},
          "name fewer directories, or a `match` that takes fewer of the pictures");
    }
    pictures_.push_back({.root = roots_.size() - 1, .name = std::string(name)});
    return true;
  }

  // Leaves out pictures outside all class directories. They would form a class without a name, which would get number 0
  // and shift all other classes. If no picture is in a directory, nothing is left out: all pictures have one class.
  void leave_out_strays() {
    if (classes_.size() < 2 || classes_.erase("") == 0) {
      return;
    }
    std::erase_if(pictures_, [&](const PictureFile& picture) {
      const bool stray = directory_of(picture.name).empty();
      if (stray) {
        left_out_.strays.add(roots_[picture.root].inner + picture.name);
      }
      return stray;
    });
  }

  Status load_archive(const Glob& match) {
    const Root& root = roots_.back();
    std::set<std::string, std::less<>> tools;
    return visit_archive(root.path, stop_, [&](ArchiveEntry& entry) -> Status {
      XRUN_TRY(check_stop(stop_));
      std::string_view name = entry.name();
      if (!name.starts_with(root.inner)) {
        return {};
      }
      name.remove_prefix(root.inner.size());
      if (const std::string_view tool = tool_directory_of(name); !tool.empty()) {
        if (tools.find(tool) == tools.end()) {
          tools.emplace(tool);
          left_out_.tools.add(path_in_source(tool));
        }
        return {};
      }
      XRUN_ASSIGN(const bool sample, note(name, match));
      if (!sample) {
        return {};
      }
      PictureFile& picture = pictures_.back();
      const Bytes said = std::min(entry.bytes(), kLargestPicture);
      unpacked_ += said;
      if (header_) {
        return {};
      }
      if (static_cast<Bytes>(bytes_.size()) + said > most_bytes_) {
        return content_error("XG0412",
                             {"the pictures of {} take more than {} of memory", root.path, format_bytes(most_bytes_)},
                             "unpack it and name the directory: files in directories are read when they are needed");
      }
      picture.offset = bytes_.size();
      if (Status read = entry.read(bytes_, kLargestPicture); !read.ok()) {
        if (read.error().code != "XG0412") {
          return read;
        }
        // One broken entry is a broken sample; the rest of the archive may be good.
        picture.why = read.error().message;
        bytes_.resize(picture.offset);
      }
      picture.bytes = bytes_.size() - picture.offset;
      return {};
    });
  }

  // Reads the starts of the pictures in looked_samples, archive by archive. REQUIRES: the pictures are sorted.
  Status load_starts() {
    std::map<std::pair<size_t, std::string_view>, PictureFile*> wanted;
    for (const int64_t sample : looked_samples(samples())) {
      PictureFile& picture = pictures_[static_cast<size_t>(sample)];
      wanted.emplace(std::pair(picture.root, std::string_view(picture.name)), &picture);
    }
    for (size_t r = 0; r < roots_.size(); ++r) {
      const Root& root = roots_[r];
      if (!root.archive || wanted.lower_bound({r, ""}) == wanted.lower_bound({r + 1, ""})) {
        continue;
      }
      Status visited = visit_archive(root.path, stop_, [&](ArchiveEntry& entry) -> Status {
        XRUN_TRY(check_stop(stop_));
        std::string_view name = entry.name();
        const auto found =
            name.starts_with(root.inner) ? wanted.find({r, name.substr(root.inner.size())}) : wanted.end();
        if (found == wanted.end()) {
          return {};
        }
        PictureFile& picture = *found->second;
        picture.offset = bytes_.size();
        if (const Status read = entry.read_start(bytes_, kPictureStart); !read.ok()) {
          picture.why = read.error().message;
        }
        picture.bytes = bytes_.size() - picture.offset;
        return {};
      });
      if (!visited.ok()) {
        return visited;
      }
    }
    return {};
  }

  Status load_directory(const Glob& match) {
    const auto enters = [&](std::string_view name) {
      const bool tool = is_tool_directory(base_of(name));
      if (tool) {
        left_out_.tools.add(std::string(name));
      }
      return !tool;
    };
    const auto visit = [&](std::string_view name) -> Status {
      XRUN_ASSIGN([[maybe_unused]] const bool sample, note(name, match));
      return {};
    };
    return walk_directory(roots_.back().path, stop_, visit, enters);
  }

  StopFlag stop_;  // used while the source is opened
  size_t most_pictures_;
  bool header_;
  Bytes most_bytes_ = std::min(kLargestArchive, detect_host().memory_free);  // limit for pictures from archives
  std::vector<Root> roots_;
  std::vector<PictureFile> pictures_;
  std::map<std::string, int64_t, std::less<>> classes_;
  std::vector<std::string> names_;
  std::vector<std::byte> bytes_;
  Bytes unpacked_ = 0;  // total of the sizes that archive entries declare
  FolderLeftOut left_out_;
  std::vector<Field> fields_;
};

Result<std::unique_ptr<Reader>> open_with(const SourceSpec& spec, StopFlag stop, size_t most_pictures, bool header) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(const Glob match, Glob::parse(args.text("match")));
  std::vector<std::string> paths;
  for (const std::string& path : args.texts("paths")) {
    paths.push_back(resolve_path(spec.directory, path));
    while (paths.back().size() > 1 && paths.back().ends_with('/')) {
      paths.back().pop_back();
    }
  }
  auto reader = std::make_unique<FolderReader>(stop, most_pictures, header);
  XRUN_TRY(reader->load(paths, match));
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, kMostPictures, false);
}

Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop, size_t most_pictures) {
  return open_with(spec, stop, most_pictures, false);
}

Result<std::unique_ptr<Reader>> open_folder_header(const SourceSpec& spec, StopFlag stop) {
  return open_with(spec, stop, kMostPictures, true);
}

}  // namespace xrun::runtime
