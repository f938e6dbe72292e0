#include "runtime/formats/records/record_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

constexpr size_t kHeadBytes = kPieceHeader + kImageHeader + sizeof(float);  // up to the first label of a list
constexpr size_t kFirstRead = 16 * 1024;  // bytes that are read first of a record of unknown size; most faces need less

Error cut_short(Bytes offset, Bytes end, Bytes size) {
  return content_error(
      "XG0412", {"the record at byte {} is cut short: it ends at byte {}, but the file has {}", offset, end, size},
      "get the file again: it lacks its end");
}

// Fills the head from the contents of a record, of which at least the part up to the first label is known. `length`:
// the size of all of its contents.
void fill_head(std::span<const std::byte> start, Bytes length, RecordHead& head) {
  const std::optional<ImageHeader> header = image_header_at(start);
  const Status fits = header ? check_labels_fit(*header, length) : Status();
  if (!header || !fits.ok()) {
    head.why = fits.ok() ? "shorter than the header of a picture" : fits.error().message;
    return;
  }
  head.id = header->id;
  head.label = header->label;
  if (header->flag > 0) {
    head.labels = header->flag;
    std::memcpy(&head.label, start.data() + kImageHeader, sizeof head.label);
  }
  head.is_range = header->flag == 2 && length == kRangeRecord;
}

}  // namespace

Result<std::unique_ptr<RecordFile>> RecordFile::open(const std::string& path) {
  XRUN_ASSIGN(const int opened, open_ordinary(path));
  struct stat info {};
  if (fstat(opened, &info) != 0) {
    const int error = errno;
    ::close(opened);
    return file_error(path, error);
  }
  auto file = std::unique_ptr<RecordFile>(new RecordFile(opened, path, info.st_size));
  XRUN_ASSIGN(const bool begins, file->begins_at(0));
  if (!begins) {
    return content_error("XG0412",
                         {"{} is {}", path, file->size_ == 0 ? "empty" : "not a file of records by MXNet (RecordIO)"},
                         "name a .rec file: recordio(\"train.rec\")");
  }
  return file;
}

Result<size_t> RecordFile::read_at(Bytes offset, std::span<std::byte> to) const {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(file_.get(), to.data() + done, to.size() - done, offset + static_cast<Bytes>(done));
    if (got < 0 && errno != EINTR) {
      return file_error(path_, errno);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return done;
}

Result<bool> RecordFile::begins_at(Bytes offset) const {
  std::array<std::byte, kPieceHeader> header{};
  XRUN_ASSIGN(const size_t got, read_at(offset, header));
  const auto piece = got == header.size() ? piece_at(header) : std::nullopt;
  return piece && piece->begins_record();
}

Result<RecordFile::Record> RecordFile::read(Bytes offset, Bytes expected, std::vector<std::byte>& to) const {
  Bytes want = expected > 0 && expected <= kLargestRecord ? expected : static_cast<Bytes>(kFirstRead);
  size_t have = 0;
  for (;;) {
    want = std::clamp<Bytes>(size_ - offset, 0, want);
    to.resize(static_cast<size_t>(want));
    XRUN_ASSIGN(const size_t got, read_at(offset + static_cast<Bytes>(have), std::span(to).subspan(have)));
    have += got;
    XRUN_ASSIGN(const RecordSize size, record_size(std::span(to).first(have), offset));
    if (size.complete) {
      return Record{join_pieces(std::span(to).first(static_cast<size_t>(size.bytes))), offset + size.bytes};
    }
    if (offset + size.bytes > size_ || static_cast<Bytes>(have) < want) {
      return cut_short(offset, offset + size.bytes, size_);
    }
    // A record of many small pieces takes few rounds, since each round at least doubles the bytes.
    want = std::max(size.bytes, 2 * static_cast<Bytes>(have));
  }
}

Result<RecordHead> RecordFile::head(Bytes offset) const {
  std::array<std::byte, kHeadBytes> start{};
  XRUN_ASSIGN(const size_t got, read_at(offset, start));
  return head_of(std::span(start).first(got), offset);
}

Result<RecordHead> RecordFile::head_of(std::span<const std::byte> start, Bytes offset) const {
  const std::optional<Piece> piece = start.size() < kPieceHeader ? std::nullopt : piece_at(start);
  if (!piece || !piece->begins_record()) {
    return no_record(offset, start);
  }
  RecordHead head{.offset = offset};
  Bytes end = offset + static_cast<Bytes>(kPieceHeader) + piece->length;
  if (piece->ends_record()) {
    if (end > size_) {
      return cut_short(offset, end, size_);
    }
    fill_head(start.subspan(kPieceHeader, std::min<size_t>(piece->length, start.size() - kPieceHeader)), piece->length,
              head);
  } else {
    // The header itself may be cut where its id equals the magic.
    std::vector<std::byte> joined;
    XRUN_ASSIGN(const Record record, read(offset, 0, joined));
    fill_head(record.contents, static_cast<Bytes>(record.contents.size()), head);
    end = record.end;
  }
  head.next = std::min((end + 3) / 4 * 4, size_);
  return head;
}

Result<std::span<const std::byte>> RecordHeads::bytes(Bytes offset, size_t count) {
  const Bytes end = offset + std::clamp<Bytes>(file_.size() - offset, 0, static_cast<Bytes>(count));
  if (offset < begin_ || end > begin_ + static_cast<Bytes>(filled_)) {
    begin_ = offset;
    XRUN_ASSIGN(filled_, file_.read_at(offset, window_));
  }
  const auto skipped = static_cast<size_t>(std::min<Bytes>(offset - begin_, static_cast<Bytes>(filled_)));
  return std::span<const std::byte>(window_).subspan(skipped, std::min(count, filled_ - skipped));
}

Result<RecordHead> RecordHeads::at(Bytes offset) {
  XRUN_ASSIGN(const auto start, bytes(offset, kHeadBytes));
  return file_.head_of(start, offset);
}

Result<Bytes> RecordHeads::find(Bytes from, StopFlag stop) {
  while (from < file_.size()) {
    XRUN_TRY(check_stop(stop));
    XRUN_ASSIGN(const auto here, bytes(from, kWindow));
    if (here.empty()) {
      break;  // the file became shorter
    }
    const size_t found = find_record(here);
    if (found < here.size()) {
      return from + static_cast<Bytes>(found);
    }
    // The last word is examined again together with the length that follows it.
    from += std::max<Bytes>(static_cast<Bytes>(here.size() / 4 * 4) - 4, 4);
  }
  return file_.size();
}

Status visit_records(const RecordFile& file, StopFlag stop, const std::function<Status(const RecordHead&)>& visit) {
  RecordHeads heads(file);
  for (Bytes at = 0; at < file.size();) {
    XRUN_TRY(check_stop(stop));
    auto head = heads.at(at);
    if (!head.ok()) {
      Error error = std::move(head).error();
      XRUN_ASSIGN(const Bytes next, heads.find(at + 4, stop));
      if (error.code != "XG0412" || next == file.size()) {
        error.message = file.path() + ": " + error.message;
        return error;
      }
      head = RecordHead{.offset = at, .next = next, .why = error.message};
    }
    XRUN_TRY(visit(*head));
    at = head->next;
  }
  return {};
}

}  // namespace xrun::runtime
