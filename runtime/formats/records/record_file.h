// An open file of records: reads the record at an offset, and visits all records in order.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/open_file.h"
#include "runtime/formats/records/image_record.h"
#include "runtime/formats/records/recordio.h"

namespace xrun::runtime {

// The facts at the start of a record that tell what it is, without its picture.
struct RecordHead {
  Bytes offset = 0;
  Bytes next = 0;  // where the record that follows it begins
  uint64_t id = 0;
  float label = 0;        // the first one
  int64_t labels = 1;     // number of labels
  bool is_range = false;  // one of InsightFace's records without a picture
  std::string why;        // the reason why it is not a record of a picture; empty if it is one
};

// A file of records. It keeps the file open, and holds none of its contents. All methods are const and may be called by
// any number of threads.
class RecordFile {
 public:
  // Errors: XG0401; XG0412 the file is empty or does not begin with a record.
  static Result<std::unique_ptr<RecordFile>> open(const std::string& path);

  const std::string& path() const { return path_; }
  Bytes size() const { return size_; }

  // Whether a record begins at the offset. Errors: XG0401.
  Result<bool> begins_at(Bytes offset) const;
  // The head of the record at `offset`. Errors: XG0412 no record begins there, or the file ends before the record does,
  // without the file's name; XG0401.
  Result<RecordHead> head(Bytes offset) const;
  // Reads the record at `offset` into `to`, of which the contents are a part. `expected`: the size that it probably
  // has, so that one call of the system suffices; 0 if it is unknown. Errors: XG0412 with the offset, without the name
  // of the file; XG0401.
  struct Record {
    std::span<const std::byte> contents;  // with its pieces joined
    Bytes end = 0;                        // offset of the first byte after it, padding not included
  };
  Result<Record> read(Bytes offset, Bytes expected, std::vector<std::byte>& to) const;

  // Reads the bytes [offset, offset + to.size()), fewer at the end of the file; returns their number. Errors: XG0401.
  Result<size_t> read_at(Bytes offset, std::span<std::byte> to) const;

 private:
  friend class RecordHeads;

  RecordFile(int file, std::string path, Bytes size) : file_(file), path_(std::move(path)), size_(size) {}

  // The head of the record whose first bytes, kHeadBytes or all that the file has, are `start`.
  Result<RecordHead> head_of(std::span<const std::byte> start, Bytes offset) const;

  OpenFile file_;
  std::string path_;
  Bytes size_;
};

// Reads the heads of records through a window of the file, so that ascending offsets read each part of it only once.
// One thread at a time.
class RecordHeads {
 public:
  explicit RecordHeads(const RecordFile& file) : file_(file), window_(kWindow) {}

  // The head of the record at `offset`. Errors: those of RecordFile::head.
  Result<RecordHead> at(Bytes offset);
  // The offset of the first record that begins at `from`, a multiple of 4, or later; file.size() if there is none.
  // Errors: XG0401.
  Result<Bytes> find(Bytes from, StopFlag stop);

 private:
  static constexpr size_t kWindow = 64 * 1024;

  // The bytes [offset, offset + count), fewer at the end of the file; valid until the next call.
  Result<std::span<const std::byte>> bytes(Bytes offset, size_t count);

  const RecordFile& file_;
  std::vector<std::byte> window_;
  Bytes begin_ = 0;    // offset of the window in the file
  size_t filled_ = 0;  // number of its bytes
};

// Visits the heads of all records in the order of the file. A stretch of damaged bytes is passed to `visit` as one
// record with a `why`; the visit goes on with the first record after it. Errors: XG0412 the file ends within a record;
// XG0401; kInterrupted; those of `visit`.
Status visit_records(const RecordFile& file, StopFlag stop, const std::function<Status(const RecordHead&)>& visit);

}  // namespace xrun::runtime
