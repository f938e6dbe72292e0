#include "graph/base/result.h"

namespace xrun {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kContent:
      return 1;
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kInfeasible:
      return 3;
    case ErrorKind::kWorld:
      return 4;
    case ErrorKind::kNonFinite:
      return 5;
    case ErrorKind::kInterrupted:
      return 75;
  }
  return 4;
}

}  // namespace xrun
