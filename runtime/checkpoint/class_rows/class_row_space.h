// Checks that a disk has space for class rows in files.
#pragma once

#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// The disk space that the rows of a head need.
struct RowsRoom {
  std::string head;
  Bytes rows = 0;  // size of the rows file
  Bytes undo = 0;  // largest size of its undo log
};

// Checks that `directory`, the directory of the checkpoints (which may not exist yet), has space for the rows of these
// heads. Rows files of these heads that already exist count as free space, since they will be replaced. Errors: XG0711,
// with the space that is needed, the directory, and the space that is free.
Status check_room(const std::string& directory, std::span<const RowsRoom> needed);

}  // namespace xrun::runtime
