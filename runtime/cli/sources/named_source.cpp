#include "runtime/cli/sources/named_source.h"

#include <cstring>

#include "lang/frontend.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "runtime/cli/sources/guess_reader.h"

namespace xrun::cli {

Outcome<NamedSource> find_source(const std::string& word) {
  NamedSource named;
  XRUN_ASSIGN(named.call, guess_reader(word));
  SourceMap sources;
  Diagnostics diagnostics;
  // The source is called `train`, so that readers warn of classes without samples.
  auto file = lang::check_text("data", "xgraph 1\n\ndata d {\n  source train = " + named.call + "\n}\n", sources,
                               diagnostics, {.ops = &ops::registry(), .norm_of = ops::norm_group});
  if (!file || file->module.data.sources.empty()) {
    return Failure(std::move(diagnostics), std::move(sources));
  }
  named.spec = std::move(file->module.data.sources[0]);
  named.spec.directory = "";
  named.spec.reader.span = Span{};  // a fault of the data is not one of this text
  return named;
}

int label_field(const runtime::Reader& reader) {
  const int label = reader.find_field("label");
  return label >= 0 ? label : reader.find_field("cls");
}

Result<std::optional<int64_t>> read_label(const runtime::Reader& reader, int64_t sample, int field,
                                          runtime::FieldValue& value) {
  XRUN_TRY(reader.read(sample, field, value));
  int64_t label = 0;
  if (value.dtype == DType::kI64 && value.bytes.size() == sizeof label) {
    std::memcpy(&label, value.bytes.data(), sizeof label);
    return std::optional(label);
  }
  int32_t narrow = 0;
  if (value.dtype == DType::kI32 && value.bytes.size() == sizeof narrow) {
    std::memcpy(&narrow, value.bytes.data(), sizeof narrow);
    return std::optional<int64_t>(narrow);
  }
  return std::optional<int64_t>();
}

}  // namespace xrun::cli
