#include "runtime/formats/files.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <locale.h>
#include <memory>
#include <new>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "graph/base/errors.h"
#include "graph/os/regular_file.h"

namespace xrun::runtime {
namespace {

constexpr size_t kChunk = 64 * 1024;

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using ArchivePtr = std::unique_ptr<archive, CloseArchive>;

// The limit of the ratio between unpacked and packed bytes. Deflate reaches at most 1,032; ordinary data stays far
// below a thousand.
constexpr uint64_t kMostRatio = 1000;
constexpr uint64_t kAnyRatio = 1 << 20;  // a file may unpack to this many bytes at any ratio

bool is_bomb(uint64_t packed, uint64_t unpacked) { return unpacked > kAnyRatio && unpacked / kMostRatio > packed; }

Error broken(std::string_view path, std::string_view why) {
  return content_error("XG0412", {"{}: {}", path, why}, "get the file again");
}

std::string reason(archive* a) {
  const char* text = archive_error_string(a);
  return text != nullptr ? text : "damaged";
}

const char* help_for(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return "check the path; relative paths start at the file that names them";
    case EACCES:
    case EPERM:
      return "give the user who runs xrun the right to read it";
    case EMFILE:
      return "raise the limit of open files (`ulimit -n`)";
    default:
      return "";
  }
}

// The error of a libarchive call. If errno was passed on from the operating system, it is that error; otherwise the
// content is broken, for which libarchive uses other values of errno, including ENOMEM.
Error fault_of(archive* a, std::string_view path) {
  switch (const int number = archive_errno(a)) {
    case EACCES:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOENT:
    case EPERM:
    case ESTALE:
      return file_error(path, number);
    default:
      return broken(path, reason(a));
  }
}

// Makes libarchive return names in UTF-8 while the object exists: it uses the character set of the thread's locale.
// Names that an archive does not mark as UTF-8 stay as they are.
class Utf8Names {
 public:
  Utf8Names() : utf8_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    before_ = utf8_ == nullptr ? nullptr : ::uselocale(utf8_);
  }
  ~Utf8Names() {
    if (utf8_ != nullptr) {
      ::uselocale(before_);
      ::freelocale(utf8_);
    }
  }
  Utf8Names(const Utf8Names&) = delete;

 private:
  locale_t utf8_;
  locale_t before_;
};

// The total of unpacked bytes so far, and the size of the archive. The total is checked, not each entry: entries may
// share packed data, so that each of them alone stays below the limit.
struct Unpacked {
  uint64_t packed = 0;
  uint64_t bytes = 0;
};

// Appends data of the current entry, at most `most` bytes. Returns true if the entry has ended.
Result<bool> append(archive* a, Unpacked& unpacked, std::vector<std::byte>& to, size_t most, std::string_view path) {
  const size_t start = to.size();
  while (to.size() - start < most) {
    const size_t old = to.size();
    const size_t want = std::min(kChunk, most - (old - start));
    to.resize(old + want);
    const la_ssize_t got = archive_read_data(a, to.data() + old, want);
    to.resize(old + static_cast<size_t>(std::max<la_ssize_t>(got, 0)));
    if (got < 0) {
      return fault_of(a, path);
    }
    if (got == 0) {
      return true;
    }
    unpacked.bytes += static_cast<uint64_t>(got);
    if (is_bomb(unpacked.packed, unpacked.bytes)) {
      return broken(path, "its archive unpacks to more than 1 000 times its size");
    }
  }
  return false;
}

class Entry final : public ArchiveEntry {
 public:
  // `fault`: how the archive contradicts itself about this entry; empty if it does not.
  Entry(archive* a, Unpacked& unpacked, archive_entry* entry, std::string_view name, std::string_view path,
        std::string fault)
      : archive_(a),
        unpacked_(unpacked),
        bytes_(archive_entry_size_is_set(entry) != 0 ? archive_entry_size(entry) : 0),
        name_(name),
        path_(path),
        fault_(std::move(fault)) {}
  std::string_view name() const override { return name_; }
  Bytes bytes() const override { return bytes_; }
  Status read(std::vector<std::byte>& to, Bytes most) override {
    XRUN_ASSIGN(const bool whole, read_part(to, most + 1));
    if (!whole) {
      return broken(name_, fmt::format("larger than {}", format_bytes(most)));
    }
    return {};
  }
  Status read_start(std::vector<std::byte>& to, Bytes most) override {
    XRUN_ASSIGN([[maybe_unused]] const bool whole, read_part(to, most));
    return {};
  }

 private:
  Result<bool> read_part(std::vector<std::byte>& to, Bytes most) {
    if (!fault_.empty()) {
      return broken(fmt::format("{} in {}", name_, path_), fault_);
    }
    return append(archive_, unpacked_, to, static_cast<size_t>(most), fmt::format("{} in {}", name_, path_));
  }

  archive* archive_;
  Unpacked& unpacked_;
  Bytes bytes_;
  std::string_view name_;
  std::string_view path_;
  std::string fault_;
};

// The fault of an entry whose header libarchive read with a warning: its sizes or checksums differ from those in the
// archive's directory. Other warnings, such as about names, are harmless.
std::string contradiction_of(archive* a, int status) {
  const std::string why = status == ARCHIVE_WARN ? reason(a) : "";
  return why.starts_with("Inconsistent") ? why : "";
}

Status visit_open(archive* a, size_t packed, std::string_view path, const std::function<Status(ArchiveEntry&)>& visit) {
  const Utf8Names names;
  Unpacked unpacked{.packed = packed};
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = archive_read_next_header(a, &entry);
    if (status == ARCHIVE_EOF) {
      return {};
    }
    if (status < ARCHIVE_WARN) {
      return fault_of(a, path);
    }
    const char* const name = archive_entry_pathname(entry);
    if (name == nullptr) {
      return broken(path, "the name of an entry cannot be read");
    }
    if (archive_entry_filetype(entry) != AE_IFREG) {
      continue;
    }
    const std::string copy(name);
    Entry file(a, unpacked, entry, copy, path, contradiction_of(a, status));
    XRUN_TRY(visit(file));
  }
}

// Opens a regular file for reading; the caller closes it.
Result<int> open_ordinary(const std::string& path) {
  const int file = open_regular(path);
  if (file == -EISDIR || file == -ESPIPE) {
    return content_error("XG0401", {"{} is {}", path, file == -EISDIR ? "a directory" : "not a regular file"},
                         "name a file");
  }
  return file < 0 ? Result<int>(file_error(path, -file)) : Result<int>(file);
}

ArchivePtr new_zip() {
  ArchivePtr a(archive_read_new());
  if (a == nullptr) {
    throw std::bad_alloc();
  }
  archive_read_support_format_zip(a.get());
  return a;
}

}  // namespace

Error file_error(std::string_view path, int error_number) {
  const bool missing = error_number == ENOENT || error_number == ENOTDIR;
  return {.kind = missing ? ErrorKind::kContent : ErrorKind::kWorld,
          .code = "XG0401",
          .message = fmt::format("cannot read {}: {}", path, std::strerror(error_number)),
          .help = help_for(error_number)};
}

namespace {

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// Reads once into `to`; returns 0 at the end of the file. An interrupting signal has no effect unless a stop is
// requested.
Result<size_t> read_some(int file, const std::string& path, std::span<std::byte> to, StopFlag stop) {
  for (;;) {
    XRUN_TRY(check_stop(stop));
    const ssize_t got = ::read(file, to.data(), to.size());
    if (got >= 0) {
      return static_cast<size_t>(got);
    }
    if (errno != EINTR) {
      return file_error(path, errno);
    }
  }
}

// Unpacks the members of a gzip file one after the other; zlib checks checksum and length of each.
class Gunzip {
 public:
  Gunzip() {
    if (::inflateInit2(&stream_, 15 + 16) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Gunzip() { ::inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;

  // Unpacks `packed` and appends the result until `to` has `most` bytes. Returns null, or the fault. Empty `packed`
  // means the end of the file, which is a fault inside a member.
  const char* add(std::span<const std::byte> packed, std::vector<std::byte>& to, size_t most) {
    if (packed.empty()) {
      return ended_ ? nullptr : "cut short";
    }
    packed_ += packed.size();
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    bool full = false;  // the last call filled its output, so more may follow without input
    while ((stream_.avail_in > 0 || full) && to.size() < most) {
      if (ended_) {
        if (const char* why = begin_member()) {
          return why;
        }
        continue;
      }
      const size_t old = to.size();
      to.resize(old + std::min(kChunk, most - old));
      stream_.next_out = reinterpret_cast<Bytef*>(to.data() + old);
      stream_.avail_out = static_cast<uInt>(to.size() - old);
      const int status = ::inflate(&stream_, Z_NO_FLUSH);
      full = stream_.avail_out == 0;
      to.resize(to.size() - stream_.avail_out);
      if (status == Z_STREAM_END) {
        ended_ = true;
        full = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        return stream_.msg != nullptr ? stream_.msg : "damaged";
      }
      if (is_bomb(packed_, to.size())) {
        return "it unpacks to more than 1 000 times its size";
      }
    }
    return nullptr;
  }

 private:
  // Called between two members, or before the zeros with which tapes pad a file.
  const char* begin_member() {
    if (*stream_.next_in == 0) {
      padded_ = true;
      ++stream_.next_in;
      --stream_.avail_in;
      return nullptr;
    }
    if (padded_ || ::inflateReset(&stream_) != Z_OK) {
      return "bytes after the end of its last member";
    }
    ended_ = false;
    return nullptr;
  }

  z_stream stream_{};
  uint64_t packed_ = 0;
  bool ended_ = false;   // after the last byte of a member
  bool padded_ = false;  // after zeros that follow a member
};

bool is_gzip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{0x1F} && start[1] == std::byte{0x8B};
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, Bytes most, StopFlag stop) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const OpenFile file(opened);
  std::vector<std::byte> out;
  std::vector<std::byte> chunk(kChunk);
  const auto limit = static_cast<size_t>(most);
  std::optional<Gunzip> gunzip;
  for (bool first = true; out.size() < limit; first = false) {
    XRUN_ASSIGN(const size_t got, read_some(file.get(), path, chunk, stop));
    const std::span<const std::byte> part = std::span(chunk).first(got);
    if (first && is_gzip(part)) {
      gunzip.emplace();
    }
    if (gunzip) {
      if (const char* why = gunzip->add(part, out, limit)) {
        return broken(path, why);
      }
    } else {
      out.insert(out.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(std::min(got, limit - out.size())));
    }
    if (got == 0) {
      break;
    }
  }
  return out;
}

namespace {

// The file that libarchive reads through callbacks. Its own reader would continue after every signal, so no stop could
// end it.
struct ArchiveFile {
  const OpenFile& file;
  const std::string& path;
  StopFlag stop;
  std::vector<std::byte> chunk;
};

la_ssize_t read_archive(archive* a, void* data, const void** to) {
  auto* from = static_cast<ArchiveFile*>(data);
  *to = from->chunk.data();
  const auto got = read_some(from->file.get(), from->path, from->chunk, from->stop);
  if (!got.ok()) {
    archive_set_error(a, errno, "%s", got.error().message.c_str());
    return -1;
  }
  return static_cast<la_ssize_t>(*got);
}

la_int64_t seek_archive(archive*, void* data, la_int64_t offset, int whence) {
  const off_t at = ::lseek(static_cast<ArchiveFile*>(data)->file.get(), offset, whence);
  return at < 0 ? ARCHIVE_FATAL : at;
}

la_int64_t skip_archive(archive*, void* data, la_int64_t count) {
  return ::lseek(static_cast<ArchiveFile*>(data)->file.get(), count, SEEK_CUR) < 0 ? 0 : count;
}

}  // namespace

Status visit_archive(const std::string& path, StopFlag stop, const std::function<Status(ArchiveEntry&)>& visit) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const OpenFile file(opened);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return file_error(path, errno);
  }
  ArchiveFile from{file, path, stop, std::vector<std::byte>(kChunk)};
  const ArchivePtr a = new_zip();
  archive_read_set_callback_data(a.get(), &from);
  archive_read_set_read_callback(a.get(), read_archive);
  archive_read_set_seek_callback(a.get(), seek_archive);
  archive_read_set_skip_callback(a.get(), skip_archive);
  Status done = archive_read_open1(a.get()) == ARCHIVE_OK
                    ? visit_open(a.get(), static_cast<size_t>(info.st_size), path, visit)
                    : Status(fault_of(a.get(), path));
  if (!done.ok()) {
    XRUN_TRY(check_stop(stop));  // if the read failed because of a stop
  }
  return done;
}

Status visit_archive(std::span<const std::byte> bytes, const std::function<Status(ArchiveEntry&)>& visit) {
  const ArchivePtr a = new_zip();
  if (archive_read_open_memory(a.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    return broken("archive", reason(a.get()));
  }
  return visit_open(a.get(), bytes.size(), "archive", visit);
}

}  // namespace xrun::runtime
