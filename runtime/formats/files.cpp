#include "runtime/formats/files.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <locale.h>
#include <memory>
#include <unistd.h>
#include <zlib.h>

#include "graph/base/errors.h"
#include "graph/base/regular_file.h"

namespace xrun::runtime {
namespace {

constexpr size_t kChunk = 64 * 1024;

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using ArchivePtr = std::unique_ptr<archive, CloseArchive>;

struct CloseGzip {
  void operator()(gzFile_s* file) const { ::gzclose_r(file); }
};
using GzipPtr = std::unique_ptr<gzFile_s, CloseGzip>;

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

// What libarchive met: what the system said (errno is passed on), else content that it cannot make sense of. It uses
// other numbers of errno for content, ENOMEM among them.
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

// libarchive gives names in the character set of the thread's locale; this is UTF-8 while it lives, whatever the
// environment says. Names that an archive does not call UTF-8 pass as they are.
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

// Appends data of the current entry until its end or `most` bytes in all; true at the end.
Result<bool> append(archive* a, std::vector<std::byte>& to, size_t most, std::string_view path) {
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
  }
  return false;
}

class Entry final : public ArchiveEntry {
 public:
  Entry(archive* a, std::string_view name, std::string_view path) : archive_(a), name_(name), path_(path) {}
  std::string_view name() const override { return name_; }
  Status read(std::vector<std::byte>& to, Bytes most) override {
    XRUN_ASSIGN(const bool whole,
                append(archive_, to, static_cast<size_t>(most) + 1, fmt::format("{} in {}", name_, path_)));
    if (!whole) {
      return broken(name_, fmt::format("more than {}", format_bytes(most)));
    }
    return {};
  }

 private:
  archive* archive_;
  std::string_view name_;
  std::string_view path_;
};

Status visit_open(archive* a, std::string_view path, const std::function<Status(ArchiveEntry&)>& visit) {
  const Utf8Names names;
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
    Entry file(a, copy, path);
    XRUN_TRY(visit(file));
  }
}

// For reading; the caller closes it.
Result<int> open_ordinary(const std::string& path) {
  const int file = open_regular(path);
  if (file == -EISDIR || file == -ESPIPE) {
    return content_error("XG0401", {"{} is {}", path, file == -EISDIR ? "a directory" : "no ordinary file"},
                         "name a file");
  }
  return file < 0 ? Result<int>(file_error(path, -file)) : Result<int>(file);
}

ArchivePtr new_zip() {
  ArchivePtr a(archive_read_new());
  XRUN_CHECK(a != nullptr, "out of memory");
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

Result<std::vector<std::byte>> read_file(const std::string& path, Bytes most, StopFlag stop) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  const GzipPtr file(::gzdopen(opened, "rb"));
  if (file == nullptr) {
    ::close(opened);
    return file_error(path, ENOMEM);
  }
  std::vector<std::byte> out;
  const auto limit = static_cast<size_t>(most);
  while (out.size() < limit) {
    XRUN_TRY(check_stop(stop));
    const size_t old = out.size();
    const size_t want = std::min(kChunk, limit - old);
    out.resize(old + want);
    const int got = ::gzread(file.get(), out.data() + old, static_cast<unsigned>(want));
    const int number = errno;
    out.resize(old + static_cast<size_t>(std::max(got, 0)));
    if (got <= 0) {
      int fault = Z_OK;
      const char* const why = ::gzerror(file.get(), &fault);
      if (fault == Z_ERRNO) {
        return file_error(path, number);
      }
      // A file that is cut short ends with an error, too.
      return fault == Z_OK || fault == Z_STREAM_END ? Result<std::vector<std::byte>>(std::move(out))
                                                    : Result<std::vector<std::byte>>(broken(path, why));
    }
  }
  return out;
}

Status visit_archive(const std::string& path, const std::function<Status(ArchiveEntry&)>& visit) {
  XRUN_ASSIGN(const int file, open_ordinary(path));
  const ArchivePtr a = new_zip();
  const bool opened = archive_read_open_fd(a.get(), file, kChunk) == ARCHIVE_OK;
  const Status visited = opened ? visit_open(a.get(), path, visit) : Status(fault_of(a.get(), path));
  ::close(file);
  return visited;
}

Status visit_archive(std::span<const std::byte> bytes, const std::function<Status(ArchiveEntry&)>& visit) {
  const ArchivePtr a = new_zip();
  if (archive_read_open_memory(a.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    return broken("archive", reason(a.get()));
  }
  return visit_open(a.get(), "archive", visit);
}

}  // namespace xrun::runtime
