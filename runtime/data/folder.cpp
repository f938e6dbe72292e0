#include "runtime/data/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "runtime/data/glob.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kLargestPicture = 256 * kMiB;           // encoded
constexpr Bytes kLargestArchive = 16 * kGiB;            // of the pictures taken from it
constexpr int64_t kMostDirectories = int64_t{1} << 24;  // links beside one another can multiply them

using Place = std::pair<dev_t, ino_t>;

struct PictureFile {
  size_t root = 0;    // which path
  std::string name;   // below the root
  std::string why;    // not empty: its archive entry is broken
  size_t offset = 0;  // in the bytes of the archives
  size_t bytes = 0;
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

bool is_picture(std::string_view path) {
  const std::string_view base = base_of(path);
  const size_t dot = base.rfind('.');
  if (dot == std::string_view::npos || base.starts_with('.')) {
    return false;
  }
  std::string extension(base.substr(dot));
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

// A path that does not exist may lead into an archive: "a.zip/train".
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
  FolderReader(StopFlag stop, size_t most_pictures) : stop_(stop), most_pictures_(most_pictures) {}

  Status load(const std::vector<std::string>& paths, const Glob& match) {
    for (const std::string& path : paths) {
      XRUN_ASSIGN(Root root, find_root(path));
      roots_.push_back(std::move(root));
      const size_t first = pictures_.size();
      XRUN_TRY(roots_.back().archive ? load_archive(match) : load_directory(match));
      std::sort(pictures_.begin() + static_cast<ptrdiff_t>(first), pictures_.end(),
                [](const PictureFile& a, const PictureFile& b) { return a.name < b.name; });
    }
    int64_t number = 0;
    for (auto& [name, label] : classes_) {
      label = number++;
      names_.push_back(name);
    }
    for (PictureFile& picture : pictures_) {
      picture.label = classes_.find(directory_of(picture.name))->second;
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
      return broken(picture.why);
    }
    if (!roots_[picture.root].archive) {
      return read_from_disk(roots_[picture.root].path + "/" + picture.name, out);
    }
    const std::array<int64_t, 1> shape{static_cast<int64_t>(picture.bytes)};
    out.set_view(DType::kU8, shape, std::span(bytes_).subspan(picture.offset, picture.bytes));
    return {};
  }

  std::string class_name(int64_t label) const override { return names_[static_cast<size_t>(label)]; }
  std::string sample_name(int64_t sample) const override {
    const PictureFile& picture = pictures_[static_cast<size_t>(sample)];
    return roots_[picture.root].path + "/" + roots_[picture.root].inner + picture.name;
  }
  std::string describe() const override {
    return fmt::format("folder: {} images, {} classes", format_count(samples()), format_count(classes()));
  }
  Bytes memory() const override {
    return static_cast<Bytes>(bytes_.capacity() + pictures_.capacity() * sizeof(PictureFile));
  }

 private:
  static Error broken(std::string why) {
    return content_error("XG0412", std::move(why), "replace the file, or raise `max_bad`");
  }

  // Notes a picture and its class. True when it is a sample.
  Result<bool> note(std::string_view name, const Glob& match) {
    if (!is_picture(name)) {
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
      return content_error("XG0412",
                           {"{} is one picture more than the {} that a source may have",
                            roots_.back().path + "/" + roots_.back().inner + std::string(name),
                            format_count(static_cast<int64_t>(most_pictures_))},
                           "name fewer directories, or a `match` that takes fewer of the pictures");
    }
    pictures_.push_back({.root = roots_.size() - 1, .name = std::string(name)});
    return true;
  }

  Status load_archive(const Glob& match) {
    const Root& root = roots_.back();
    return visit_archive(root.path, [&](ArchiveEntry& entry) -> Status {
      XRUN_TRY(check_stop(stop_));
      std::string_view name = entry.name();
      if (!name.starts_with(root.inner)) {
        return {};
      }
      XRUN_ASSIGN(const bool sample, note(name.substr(root.inner.size()), match));
      if (!sample) {
        return {};
      }
      PictureFile& picture = pictures_.back();
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
      if (static_cast<Bytes>(bytes_.size()) > kLargestArchive) {
        return content_error("XG0412", {"{} holds more than {} of pictures", root.path, format_bytes(kLargestArchive)},
                             "unpack it and name the directory: files of directories are read when they are wanted");
      }
      return {};
    });
  }

  Status load_directory(const Glob& match) {
    std::vector<Place> above;
    directories_ = 0;
    return walk(roots_.back().path, match, above);
  }

  // Links to directories are followed; `above` are the directories that lead here.
  Status walk(const std::string& directory, const Glob& match, std::vector<Place>& above) {
    struct stat info {};
    if (stat(directory.c_str(), &info) != 0) {
      return file_error(directory, errno);
    }
    const Place here{info.st_dev, info.st_ino};
    if (std::ranges::find(above, here) != above.end()) {
      return endless(directory, "a link to a directory that it lies in");
    }
    if (++directories_ > kMostDirectories) {
      return endless(directory, "one directory too many");
    }
    above.push_back(here);
    std::error_code error;
    fs::directory_iterator at(directory, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      XRUN_TRY(check_stop(stop_));
      std::error_code ignored;  // an entry that cannot be looked at is no picture
      if (at->is_directory(ignored)) {
        XRUN_TRY(walk(at->path().native(), match, above));
      } else if (at->is_regular_file(ignored)) {
        std::string_view name = at->path().native();
        name.remove_prefix(roots_.back().path.size());
        name.remove_prefix(std::min(name.find_first_not_of('/'), name.size()));
        XRUN_TRY(note(name, match));
      }
    }
    above.pop_back();
    return error ? Status(file_error(directory, error.value())) : Status();
  }

  static Error endless(const std::string& directory, const char* why) {
    return content_error("XG0401", {"{} is {}", directory, why},
                         "take the link away, or name the directories that hold the pictures");
  }

  // What the system says of a file that was there when the source was opened. Only its absence is a fault of the
  // sample: others would take its place while the disk fails or descriptors run out, and the run would learn from what
  // happened to be readable.
  static Error fault_of(int error_number) {
    const std::string why = fmt::format("cannot be read: {}", std::strerror(error_number));
    if (error_number == ENOENT || error_number == ENOTDIR) {
      return broken(why);
    }
    Error error = file_error("", error_number);
    error.message = why;
    return error;
  }

  static Status read_from_disk(const std::string& path, FieldValue& out) {
    int file = -1;
    do {
      file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    } while (file < 0 && errno == EINTR);
    if (file < 0) {
      return fault_of(errno);
    }
    Status done = read_all(file, out);
    close(file);
    return done;
  }

  static Status read_all(int file, FieldValue& out) {
    struct stat info {};
    if (fstat(file, &info) != 0) {
      return fault_of(errno);
    }
    if (!S_ISREG(info.st_mode) || info.st_size > kLargestPicture) {
      return broken(fmt::format("no file of at most {}", format_bytes(kLargestPicture)));
    }
    const std::array<int64_t, 1> shape{info.st_size};
    std::byte* to = out.set_own(DType::kU8, shape);
    for (size_t done = 0; done < static_cast<size_t>(info.st_size);) {
      const ssize_t got = ::read(file, to + done, static_cast<size_t>(info.st_size) - done);
      if (got == 0) {
        return broken("became shorter while it was read");
      }
      if (got < 0 && errno != EINTR) {
        return fault_of(errno);
      }
      done += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    return {};
  }

  StopFlag stop_;  // while it is opened
  size_t most_pictures_;
  std::vector<Root> roots_;
  int64_t directories_ = 0;  // walked through below the last root
  std::vector<PictureFile> pictures_;
  std::map<std::string, int64_t, std::less<>> classes_;
  std::vector<std::string> names_;
  std::vector<std::byte> bytes_;
  std::vector<Field> fields_;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop) {
  return open_folder(spec, stop, kMostPictures);
}

Result<std::unique_ptr<Reader>> open_folder(const SourceSpec& spec, StopFlag stop, size_t most_pictures) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(const Glob match, Glob::parse(args.text("match")));
  std::vector<std::string> paths;
  for (const std::string& path : args.texts("paths")) {
    paths.push_back(resolve_path(spec.directory, path));
    while (paths.back().size() > 1 && paths.back().ends_with('/')) {
      paths.back().pop_back();
    }
  }
  auto reader = std::make_unique<FolderReader>(stop, most_pictures);
  XRUN_TRY(reader->load(paths, match));
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace xrun::runtime
