// Counts the texts of a source with more n-grams than a row of an input holds.
// Tests: tests/runtime/data/augment/ngrams_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime {
namespace {

constexpr int64_t kMostRead = int64_t{1} << 18;

}  // namespace

std::optional<Error> SampleRows::cut_texts() const {
  const auto input = std::ranges::find_if(inputs_, [](const RowInput& one) { return one.transform.hashes_ngrams(); });
  if (input == inputs_.end()) {
    return std::nullopt;
  }
  AugmentScratch scratch;
  std::vector<std::byte> row(static_cast<size_t>(input->transform.row_bytes()));
  const int64_t read = std::min(samples(), kMostRead);
  int64_t texts = 0;
  int64_t left_out = 0;
  int64_t most = 0;
  std::string first;
  for (int64_t i = 0; i < read; ++i) {
    // samples() / read is exact enough as a step: both are below 2^53.
    const auto sample =
        static_cast<int64_t>(static_cast<double>(samples()) / static_cast<double>(read) * static_cast<double>(i));
    if (!read_input(*input, sample, {.training = false}, scratch, row.data()).ok() || scratch.ngrams.left_out == 0) {
      continue;  // a broken sample is reported when it is read for the run
    }
    first = texts++ == 0 ? reader_->sample_name(sample) : first;
    left_out += scratch.ngrams.left_out;
    most = std::max(most, scratch.ngrams.left_out);
  }
  if (texts == 0) {
    return std::nullopt;
  }
  const int64_t length = input->transform.target().dims[1];
  return content_error(
      "XG0430",
      {"source `{}`: {} of {} have more than {} n-grams, of which {} are left out; the first: {}", name_,
       format_count(texts), counted(read, read < samples() ? "examined text" : "text"), length, format_count(left_out),
       first},
      {"let a row have {} numbers, which keep all n-grams of these texts, or narrow `chars` and `words`",
       format_with_underscores(length + most)},
      span_);
}

}  // namespace xrun::runtime
