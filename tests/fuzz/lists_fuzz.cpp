// Fuzzes the texts that name or hold pictures. The first byte chooses the format: the index, the list or `property` of
// a file of records, base64, names of classes, or a list with its labels.
#include <cstdint>
#include <span>

#include "runtime/data/open_reader.h"
#include "runtime/formats/base64.h"
#include "runtime/formats/records/class_names.h"
#include "runtime/formats/records/record_texts.h"
#include "tests/fuzz/memory_file.h"

namespace {

using namespace xrun;

void open_list(const std::string& path, char delimiter) {
  const SourceSpec spec{
      .name = "train",
      .reader = {"list", {{"path", path}, {"root", std::string()}, {"delimiter", std::string(1, delimiter)}}, {}}};
  const auto reader = runtime::open_reader(spec);
  if (!reader.ok()) {
    return;
  }
  runtime::FieldValue value;
  for (int64_t sample = 0; sample < (*reader)->samples(); ++sample) {
    XRUN_CHECK((*reader)->read(sample, 1, value).ok(), "each sample has a label");
    if ((*reader)->describe().find("base64") != std::string::npos) {
      const Status picture = (*reader)->read(sample, 0, value);
      XRUN_CHECK(picture.ok() || picture.error().code == "XG0412", "a damaged picture is a broken sample");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const test::MemoryFile input(bytes);
  switch (data[0] % 7) {
    case 0: {
      const auto entries = runtime::read_record_index(input.path(), nullptr);
      for (size_t i = 1; entries.ok() && i < entries->size(); ++i) {
        XRUN_CHECK((*entries)[i - 1].offset <= (*entries)[i].offset, "an index is sorted by offset");
      }
      break;
    }
    case 1: {
      const auto list = runtime::RecordList::read(input.path(), nullptr);
      XRUN_CHECK(!list.ok() || list->find(INT64_MIN) < static_cast<int64_t>(size), "a line lies in the list");
      break;
    }
    case 2: {
      const auto classes = runtime::read_property_classes(input.path());
      XRUN_CHECK(!classes.ok() || *classes > 0, "there are classes");
      break;
    }
    case 3: {
      std::vector<std::byte> text(bytes.begin(), bytes.end());
      const auto decoded = runtime::decode_base64(text);
      XRUN_CHECK(!decoded || *decoded <= text.size(), "decoding makes a text shorter");
      break;
    }
    case 4: {
      const auto names = runtime::read_class_names(input.path(), nullptr);
      for (size_t i = 0; names.ok() && i < names->size(); ++i) {
        XRUN_CHECK(!(*names)[i].empty(), "each class has a name");
      }
      break;
    }
    default:
      open_list(input.path(), data[0] % 7 == 5 ? '\t' : ',');
  }
  return 0;
}
