// The interface to class rows in a file that is mapped over buffers in the arenas of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/layouts/rows_layout.h"

namespace xrun::runtime {

// Class rows of a head in a file, with an undo log. Implemented by runtime/checkpoint. Threads: any calls log_old and
// read_ahead; map is called between steps.
class MappedRows {
 public:
  virtual ~MappedRows() = default;
  virtual const std::string& path() const = 0;  // for messages
  virtual const RowsLayout& layout() const = 0;

  // Maps rows [row_begin, row_end) of a section at the address `to`, over pages that the caller has mapped and will
  // unmap. Writes to these pages change the file. The same rows may be mapped at several addresses. REQUIRES: the rows
  // fill whole pages, in the section and in memory, except at the end of the section. Errors: kWorld.
  virtual Status map(size_t section, int64_t row_begin, int64_t row_end, std::byte* to) = 0;

  // Asks the system to read the rows that a step will use, given in ascending order; does not wait for them.
  virtual void read_ahead(std::span<const int32_t> rows) const = 0;

  // Call before a step changes rows, with all of these rows in ascending order. If there is a checkpoint, logs the
  // values that the rows have in it. Errors: kWorld; then none of these rows may be changed, and the run ends.
  // REQUIRES, also for read_ahead: all sections of `rows` are mapped, each by a single call of `map`.
  virtual Status log_old(std::span<const int32_t> rows) = 0;
};

}  // namespace xrun::runtime
