// Archives: libarchive reads the file through callbacks, so that a request to stop ends the read.
// Tests: tests/runtime/formats/files_test.cpp, tests/runtime/data/readers/folder_test.cpp
#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <cerrno>
#include <fmt/format.h>
#include <locale.h>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"
#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using ArchivePtr = std::unique_ptr<archive, CloseArchive>;

std::string reason(archive* a) {
  const char* text = archive_error_string(a);
  return text != nullptr ? text : "damaged";
}

// Returns the error of a libarchive call. If errno came from the operating system, it determines the error; otherwise
// the content is broken, for which libarchive uses other values of errno, including ENOMEM.
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
      return broken_file(path, reason(a));
  }
}

// Makes libarchive return names in UTF-8 while the object exists, since it uses the character set of the thread's
// locale. Names that an archive does not mark as UTF-8 are returned unchanged.
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

// The total of unpacked bytes so far, and the size of the archive. The total is limited, not each entry: entries may
// share packed data, so that each entry alone would be below the limit.
struct Unpacked {
  uint64_t packed = 0;
  uint64_t bytes = 0;
};

// Appends data of the current entry, at most `most` bytes. Returns true at the end of the entry.
Result<bool> append(archive* a, Unpacked& unpacked, std::vector<std::byte>& to, size_t most, std::string_view path) {
  const size_t start = to.size();
  while (to.size() - start < most) {
    const size_t old = to.size();
    const size_t want = std::min(kReadChunk, most - (old - start));
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
    if (unpacks_too_far(unpacked.packed, unpacked.bytes)) {
      return broken_file(path, "its archive unpacks to more than 1 000 times its size");
    }
  }
  return false;
}

class Entry final : public ArchiveEntry {
 public:
  // `fault`: the contradiction in the archive about this entry; empty if there is no contradiction.
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
      return broken_file(name_, fmt::format("larger than {}", format_bytes(most)));
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
      return broken_file(fmt::format("{} in {}", name_, path_), fault_);
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

// Returns the fault of an entry if libarchive warned when it read the entry's header: sizes or checksums differ from
// those in the archive's directory. Other warnings, such as about names, are harmless.
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
      return broken_file(path, "the name of an entry cannot be read");
    }
    if (archive_entry_filetype(entry) != AE_IFREG) {
      continue;
    }
    const std::string copy(name);
    Entry file(a, unpacked, entry, copy, path, contradiction_of(a, status));
    XRUN_TRY(visit(file));
  }
}

ArchivePtr new_zip() {
  ArchivePtr a(archive_read_new());
  if (a == nullptr) {
    throw std::bad_alloc();
  }
  archive_read_support_format_zip(a.get());
  return a;
}

// The file that libarchive reads through callbacks. libarchive's own reader would continue after every signal, so no
// request to stop could end it.
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
  ArchiveFile from{file, path, stop, std::vector<std::byte>(kReadChunk)};
  const ArchivePtr a = new_zip();
  archive_read_set_callback_data(a.get(), &from);
  archive_read_set_read_callback(a.get(), read_archive);
  archive_read_set_seek_callback(a.get(), seek_archive);
  archive_read_set_skip_callback(a.get(), skip_archive);
  Status done = archive_read_open1(a.get()) == ARCHIVE_OK
                    ? visit_open(a.get(), static_cast<size_t>(info.st_size), path, visit)
                    : Status(fault_of(a.get(), path));
  if (!done.ok()) {
    XRUN_TRY(check_stop(stop));  // returns kInterrupted if the read failed because of a stop
  }
  return done;
}

Status visit_archive(std::span<const std::byte> bytes, const std::function<Status(ArchiveEntry&)>& visit) {
  const ArchivePtr a = new_zip();
  if (archive_read_open_memory(a.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    return broken_file("archive", reason(a.get()));
  }
  return visit_open(a.get(), bytes.size(), "archive", visit);
}

}  // namespace xrun::runtime
