#include "graph/base/regular_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xrun {

int open_regular(const std::string& path, Links links) {
  // Without O_NONBLOCK the call itself would wait at a pipe. On an ordinary file the flag has no effect.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links == Links::kRefuse ? O_NOFOLLOW : 0);
  const int file = ::open(path.c_str(), flags);
  if (file < 0) {
    return errno == ENXIO ? -ESPIPE : -errno;  // ENXIO: a socket, or a device that is not there
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
