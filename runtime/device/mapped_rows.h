// Class rows in a file, as a run that computes on them sees them: mapped over buffers of its arenas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/rows_layout.h"

namespace xrun::runtime {

// Implemented by runtime/checkpoint. Threads: log_old and read_ahead from any, map between steps.
class MappedRows {
 public:
  virtual ~MappedRows() = default;
  virtual const std::string& path() const = 0;  // for messages
  virtual const RowsLayout& layout() const = 0;

  // Maps rows [row_begin, row_end) of a section over `to`, pages that the caller has mapped and will unmap. What is
  // written there is in the file. The same rows may be mapped in several places. REQUIRES: whole pages, in the section
  // and in memory; the last row of all may end inside of one. Errors: kWorld.
  virtual Status map(size_t section, int64_t row_begin, int64_t row_end, std::byte* to) = 0;

  // Asks the system to read rows that a step will use, ascending, and does not wait for them.
  virtual void read_ahead(std::span<const int32_t> rows) const = 0;

  // To be called with all rows that a step may change, ascending, before it changes them: keeps what they were at the
  // newest checkpoint, where there is one. Errors: kWorld; then no row of `rows` may be changed, and the run ends.
  // REQUIRES of both: `rows` were mapped together, with all sections.
  virtual Status log_old(std::span<const int32_t> rows) = 0;
};

}  // namespace xrun::runtime
