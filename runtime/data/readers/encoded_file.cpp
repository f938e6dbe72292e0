#include "runtime/data/readers/encoded_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

// The error for a file that existed when the source was opened. Only a missing file counts as a broken sample, which
// may be replaced. If a failing disk or a lack of descriptors also counted, the run would train on those files only
// that can still be read.
Error fault_of(int error_number) {
  const std::string why = fmt::format("cannot be read: {}", std::strerror(error_number));
  if (error_number == ENOENT || error_number == ENOTDIR) {
    return broken_sample(why);
  }
  Error error = file_error("", error_number);
  error.message = why;
  return error;
}

Status read_all(int file, bool only_start, FieldValue& out) {
  struct stat info {};
  if (fstat(file, &info) != 0) {
    return fault_of(errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_size > kLargestPicture) {
    return broken_sample(fmt::format("not a regular file of at most {}", format_bytes(kLargestPicture)));
  }
  const auto size = static_cast<size_t>(only_start ? std::min<Bytes>(info.st_size, kPictureStart) : info.st_size);
  const std::array<int64_t, 1> shape{static_cast<int64_t>(size)};
  std::byte* to = out.set_own(DType::kU8, shape);
  for (size_t done = 0; done < size;) {
    const ssize_t got = ::read(file, to + done, size - done);
    if (got == 0) {
      return broken_sample("became shorter while it was read");
    }
    if (got < 0 && errno != EINTR) {
      return fault_of(errno);
    }
    done += static_cast<size_t>(std::max<ssize_t>(got, 0));
  }
  return {};
}

}  // namespace

Error broken_sample(std::string why) {
  return content_error("XG0412", std::move(why), "replace the file, or raise `max_bad`");
}

Status check_some_exist(const std::string& list, int64_t samples, const std::function<std::string(int64_t)>& path_of) {
  const std::vector<int64_t> looked = looked_samples(samples);
  for (const int64_t sample : looked) {
    struct stat info {};
    if (::stat(path_of(sample).c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR)) {
      return {};
    }
  }
  return looked.empty() ? Status()
                        : content_error("XG0401",
                                        {"no file that {} lists exists: {} of {} were examined, the first is {}", list,
                                         looked.size(), samples, path_of(0)},
                                        "say in which folder the paths start: root=\"...\"");
}

Status read_encoded(const std::string& path, bool only_start, FieldValue& out) {
  int file = -1;
  do {
    file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait if the path is a pipe
  } while (file < 0 && errno == EINTR);
  if (file < 0) {
    return fault_of(errno);
  }
  Status done = read_all(file, only_start, out);
  close(file);
  return done;
}

}  // namespace xrun::runtime
