// Whether a disk has room for class rows in files.
#pragma once

#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// What the rows of a head take.
struct RowsRoom {
  std::string head;
  Bytes rows = 0;  // the file
  Bytes undo = 0;  // its log, at most
};

// `directory`: of the checkpoints, which may not be there yet; files of these heads that it has are room already.
// Errors: XG0711 says how much is needed, where, and what is there.
Status check_room(const std::string& directory, std::span<const RowsRoom> needed);

}  // namespace xrun::runtime
