// Tests: tests/runtime/data/readers/pairs/pairs_test.cpp
#include "runtime/data/readers/pairs/pair_set.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/pickle/numpy_values.h"
#include "runtime/formats/pickle/pickle.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kHelp =
    "a verification set may hold lists, byte strings, bools and NumPy arrays, and nothing that runs code. If you trust "
    "the file, write it again in Python: bins, same = pickle.load(open(\"old.bin\", \"rb\")); "
    "pickle.dump(([bytes(b) for b in bins], [bool(s) for s in same]), open(\"new.bin\", \"wb\"), 4)";

// The error for a pickle that is not a verification set.
Error wrong_content(const Pickle& pickle, std::string why) {
  return content_error("XG0412", {"{}: {}", pickle.input().name(), std::move(why)},
                       "a verification set is a pickle of (bins, issame): 2n encoded pictures and n flags");
}

bool is_sequence(const PickleValue& value) {
  return value.kind == PickleKind::kTuple || value.kind == PickleKind::kList;
}

Result<PickleString> picture_at(const Pickle& pickle, PickleId id, size_t number) {
  XRUN_ASSIGN(const auto bytes, pickled_bytes(pickle, id));
  if (bytes) {
    return *bytes;
  }
  XRUN_ASSIGN(const auto array, pickled_array(pickle, id));
  if (!array) {
    return wrong_content(pickle,
                         fmt::format("bins[{}] is {}, not an encoded picture", number, name_of(pickle[id].kind)));
  }
  const auto wide = std::ranges::count_if(array->shape, [](int64_t dim) { return dim != 1; });
  if (array->letter != 'u' || array->item_bytes != 1 || wide > 1 || array->shape.empty()) {
    return wrong_content(pickle, fmt::format("bins[{}] is an array {}; a picture must be encoded (JPEG, PNG), as "
                                             "u8 [bytes]",
                                             number, array->type()));
  }
  return array->data;
}

// The value of a flag that is not in an array.
Result<int64_t> flag_at(const Pickle& pickle, PickleId id, size_t number) {
  const PickleValue& value = pickle[id];
  if (value.kind == PickleKind::kBool || value.kind == PickleKind::kInteger) {
    return value.number;
  }
  XRUN_ASSIGN(const auto scalar, pickled_array(pickle, id));
  if (!scalar || scalar->elements != 1) {
    return wrong_content(pickle, fmt::format("issame[{}] is {}, not True or False", number, name_of(value.kind)));
  }
  XRUN_ASSIGN(const auto numbers, read_integers(pickle, *scalar));
  return numbers[0];
}

// `wanted`: the number of flags, which is checked before an array is read.
Result<std::vector<int64_t>> flags_of(const Pickle& pickle, PickleId id, int64_t wanted) {
  const auto check_count = [&](int64_t flags) {
    return flags == wanted ? Status()
                           : wrong_content(pickle, fmt::format("{} pictures need {} flags, but issame has {}",
                                                               2 * wanted, wanted, flags));
  };
  std::vector<int64_t> flags;
  if (is_sequence(pickle[id])) {
    const auto& items = pickle[id].items;
    XRUN_TRY(check_count(std::ssize(items)));
    for (size_t i = 0; i < items.size(); ++i) {
      XRUN_ASSIGN(const int64_t flag, flag_at(pickle, items[i], i));
      flags.push_back(flag);
    }
    return flags;
  }
  XRUN_ASSIGN(const auto array, pickled_array(pickle, id));
  if (!array) {
    return wrong_content(pickle, fmt::format("issame is {}, not a list or an array", name_of(pickle[id].kind)));
  }
  XRUN_TRY(check_count(array->elements));
  return read_integers(pickle, *array);
}

}  // namespace

Result<PairSet> read_pair_set(const PickleInput& input, Bytes most_memory, StopFlag stop) {
  const auto globals = numpy_globals();
  XRUN_ASSIGN(
      const Pickle pickle,
      parse_pickle(input, 0, {.globals = {globals.begin(), globals.end()}, .help = kHelp, .most_memory = most_memory},
                   stop));
  const PickleValue& root = pickle[pickle.root()];
  if (!is_sequence(root) || root.items.size() != 2 || !is_sequence(pickle[root.items[0]])) {
    return wrong_content(pickle, fmt::format("the pickle holds {}, not a pair of bins and issame",
                                             is_sequence(root) ? "other values" : name_of(root.kind)));
  }
  const auto& bins = pickle[root.items[0]].items;
  if (bins.size() % 2 != 0) {
    return wrong_content(pickle, fmt::format("it has {} pictures, which is not two for each pair", bins.size()));
  }
  XRUN_ASSIGN(const auto flags, flags_of(pickle, root.items[1], std::ssize(bins) / 2));
  PairSet set;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0 && flags[i] != 1) {
      return wrong_content(pickle, fmt::format("issame[{}] is {}; flags are True and False, or 1 and 0", i, flags[i]));
    }
    set.same.push_back(flags[i] != 0);
  }
  set.pictures.reserve(bins.size());
  for (size_t i = 0; i < bins.size(); ++i) {
    XRUN_ASSIGN(const PickleString picture, picture_at(pickle, bins[i], i));
    set.pictures.push_back(picture);
  }
  return set;
}

}  // namespace xrun::runtime
