#include "graph/os/regular_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xrun {

int open_regular(const std::string& path, Links links) {
  // Without O_NONBLOCK the open itself would wait for a pipe's writer. The flag has no effect on an ordinary file.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links == Links::kRefuse ? O_NOFOLLOW : 0);
  const int file = ::open(path.c_str(), flags);
  if (file < 0) {
    return errno == ENXIO ? -ESPIPE : -errno;  // ENXIO: a socket, or a device that does not exist
  }
  struct stat info {};
  const int fault = ::fstat(file, &info) != 0 ? errno
                    : S_ISREG(info.st_mode)   ? 0
                    : S_ISDIR(info.st_mode)   ? EISDIR
                                              : ESPIPE;
  if (fault != 0) {
    ::close(file);
    return -fault;
  }
  return file;
}

}  // namespace xrun
