#include "runtime/checkpoint/files/copy_file.h"

#include <fcntl.h>
#include <span>

#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/read_file.h"

namespace xrun::runtime {

Status copy_file(const std::string& from, const ManifestFile& expected, const std::string& to, Io& io,
                 const std::atomic<bool>* stop) {
  const int file = io.open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (file < 0) {
    return checkpoint_write_error(to, -file);
  }
  Xxh128 hash;
  Status done = stream_file(from, expected.bytes, [&](std::span<const std::byte> bytes) -> Status {
    if (stop != nullptr && *stop) {
      return Error{ErrorKind::kInterrupted, "", "the run ends before its checkpoint is copied"};
    }
    hash.add(bytes);
    const int fault = io.write(file, bytes);
    return fault == 0 ? Status() : checkpoint_write_error(to, fault);
  });
  if (done.ok() && hash.hex() != expected.xxh3) {
    done = damaged(from, "does not match its digest");
  }
  int fault = done.ok() ? io.sync(file) : 0;
  const int unclosed = io.close(file);
  fault = fault == 0 ? unclosed : fault;
  if (done.ok() && fault != 0) {
    done = checkpoint_write_error(to, fault);
  }
  if (!done.ok()) {
    io.unlink(to);
  }
  return done;
}

}  // namespace xrun::runtime
