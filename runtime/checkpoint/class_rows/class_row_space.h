// Checks that a disk has space for class rows in files.
#pragma once

#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Disk space for the rows of a head.
struct RowsRoom {
  std::string head;
  Bytes rows = 0;  // size of the file
  Bytes undo = 0;  // largest size of its log
};

// Checks that `directory`, the directory of the checkpoints, which need not exist yet, has space for the rows of these
// heads. Existing files of these heads in it count as free space, since they will be replaced. Errors: XG0711 reports
// how much space is needed, where, and how much is free.
Status check_room(const std::string& directory, std::span<const RowsRoom> needed);

}  // namespace xrun::runtime
