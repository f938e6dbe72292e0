// Tests: tests/runtime/data/readers/reader_test.cpp
#include "runtime/data/open_reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string_view>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/data/readers/csv.h"
#include "runtime/data/readers/folder.h"
#include "runtime/data/readers/glyphs/glyphs.h"
#include "runtime/data/readers/idx.h"
#include "runtime/data/readers/list.h"
#include "runtime/data/readers/npy/npy.h"
#include "runtime/data/readers/pairs/pairs.h"
#include "runtime/data/readers/recordio/recordio.h"
#include "runtime/data/readers/sku_tree.h"
#include "runtime/data/readers/sparse.h"
#include "runtime/data/readers/synthetic.h"
#include "runtime/data/readers/text_reader.h"
#include "runtime/data/readers/webdataset/webdataset.h"

namespace xrun::runtime {
namespace {

using OpenFunction = Result<std::unique_ptr<Reader>> (*)(const SourceSpec& spec, StopFlag stop);

struct Opener {
  std::string_view name;
  OpenFunction open;
  OpenFunction header = nullptr;  // null: `open` is used instead, since it is as fast
};

constexpr Opener kOpeners[] = {
    {"glyphs", open_glyphs, open_glyphs_header},
    {"idx", open_idx, open_idx_header},
    {"folder", open_folder, open_folder_header},
    {"csv", open_csv},
    {"npy", open_npy, open_npy_header},
    {"sparse", open_sparse, open_sparse_header},
    {"synthetic", open_synthetic},
    {"sku_tree", open_sku_tree},
    {"recordio", open_recordio, open_recordio_header},
    {"list", open_list, open_list_header},
    {"pairs", open_pairs},
    {"webdataset", open_webdataset},
    {"text", open_text},
};

Result<std::unique_ptr<Reader>> open_any(const SourceSpec& spec, bool header, StopFlag stop) {
  for (const Opener& opener : kOpeners) {
    if (opener.name == spec.reader.name) {
      return header && opener.header != nullptr ? opener.header(spec, stop) : opener.open(spec, stop);
    }
  }
  std::vector<std::string_view> names;
  std::ranges::transform(kOpeners, std::back_inserter(names), &Opener::name);
  return content_error("XG0410", {"the reader `{}` of source `{}` is not available yet", spec.reader.name, spec.name},
                       {"this version has these readers: {}", fmt::join(names, ", ")});
}

Result<std::unique_ptr<Reader>> open_checked(const SourceSpec& spec, bool header, StopFlag stop) {
  auto reader = open_any(spec, header, stop);
  if (!reader.ok()) {
    Error error = std::move(reader).error();
    if (error.kind == ErrorKind::kInterrupted) {
      error.message = fmt::format("stopped while source `{}` was opened", spec.name);
    } else {
      error.span = spec.reader.span;
    }
    return error;
  }
  if (reader.value()->samples() == 0) {
    return content_error("XG0406", {"source `{}` has no samples ({})", spec.name, reader.value()->describe()},
                         "check the path, the range and `match`", spec.reader.span);
  }
  return reader;
}

}  // namespace

Result<std::unique_ptr<Reader>> open_reader(const SourceSpec& spec, StopFlag stop) {
  return open_checked(spec, false, stop);
}

Result<std::unique_ptr<Reader>> open_header(const SourceSpec& spec) { return open_checked(spec, true, nullptr); }

}  // namespace xrun::runtime
