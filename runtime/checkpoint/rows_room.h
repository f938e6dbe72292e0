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

// `directory`: that of the checkpoints, which need not exist yet; the space of files of these heads in it counts as
// free. Errors: XG0711 says how much is needed, where, and how much is free.
Status check_room(const std::string& directory, std::span<const RowsRoom> needed);

}  // namespace xrun::runtime
