// Fuzzes the reader of texts and the numbers of n-grams. The first bytes choose the columns, the delimiter and the form
// of the n-grams.
#include <cstdint>
#include <span>

#include "runtime/data/augment/ngrams.h"
#include "runtime/data/open_reader.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  constexpr size_t kChoices = 4;
  if (size < kChoices) {
    return 0;
  }
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(kChoices);
  const test::MemoryFile input(bytes);
  Attrs args{
      {"path", input.path()}, {"delimiter", std::string(1, "\t, ;"[data[0] % 4])}, {"header", (data[0] & 4) != 0}};
  if ((data[0] & 8) != 0) {
    args.set("text", int64_t{data[1] % 4});
  }
  if ((data[0] & 24) == 24) {
    args.set("label", int64_t{data[1] / 4 % 4});
  }
  const runtime::NgramForm form{.rows = 2 + data[2] % 64,
                                .length = 1 + data[2] / 64 * 8,
                                .least_chars = 1 + data[3] % 3,
                                .most_chars = data[3] / 4 % 8,
                                .least_words = 1 + data[3] % 2,
                                .most_words = data[3] / 32 % 4,
                                .lower = (data[0] & 32) != 0};
  const SourceSpec spec{.name = "train", .reader = {"text", std::move(args), {}}};
  const auto reader = runtime::open_reader(spec);
  if (!reader.ok()) {
    return 0;
  }
  runtime::FieldValue value;
  runtime::NgramScratch scratch;
  std::vector<double> numbers;
  for (int64_t sample = 0; sample < (*reader)->samples(); ++sample) {
    const Status read = (*reader)->read(sample, 0, value);
    XRUN_CHECK(read.ok() || read.error().code == "XG0412", "a damaged line is a broken sample");
    if (read.ok()) {
      const std::string_view text(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
      runtime::hash_ngrams(text, form, scratch, numbers);
      XRUN_CHECK(numbers.size() == static_cast<size_t>(form.length) && scratch.left_out >= 0, "a row is full");
      for (const double number : numbers) {
        XRUN_CHECK(number >= 0 && number < static_cast<double>(form.rows), "a number has a row");
      }
    }
    if ((*reader)->has_labels()) {
      const Status label = (*reader)->read(sample, 1, value);
      XRUN_CHECK(label.ok() || label.error().code == "XG0412", "a line without a label is a broken sample");
    }
    XRUN_CHECK(!(*reader)->sample_name(sample).empty(), "a line has a number");
  }
  return 0;
}
