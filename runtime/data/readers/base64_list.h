// Lists whose lines contain the pictures themselves as base64, as PLSC v1 writes them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/stop.h"
#include "graph/types/attr.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

inline constexpr size_t kLongestBase64Line =
    (256u << 20) / 3 * 4 + 4096;  // a picture of kLargestPicture with its label

// Whether the line has two cells, one of which begins a picture in base64.
bool is_base64_line(std::string_view line);

// Opens the parts: files whose lines are base64<tab>label or label<tab>base64. All of their bytes are read once, to
// find the lines; only offsets and labels are kept. `args`: those of the reader. Errors: XG0401; XG0402 labels
// (label_texts.h); XG0412 a line of another form; kInterrupted. A line whose base64 is damaged is a broken sample.
Result<std::unique_ptr<Reader>> open_base64_parts(const std::vector<std::string>& parts, const Attrs& args,
                                                  StopFlag stop);

}  // namespace xrun::runtime
