// Fuzzes pickles: any bytes give values whose strings are within the input, or an error; so do verification sets.
#include <cstdint>
#include <span>

#include "runtime/data/readers/pairs/pair_set.h"
#include "runtime/formats/pickle/numpy_values.h"
#include "runtime/formats/pickle/pickle.h"

namespace {

using namespace xrun::runtime;

constexpr xrun::Bytes kMostMemory = 64 * xrun::kMiB;

void check(const PickleInput& input, const PickleString& string) {
  XRUN_CHECK(string.offset >= 0 && string.size >= 0 && string.offset <= input.bytes() - string.size,
             "strings are within the file");
  if (const auto bytes = read_pickle_bytes(input, string); bytes.ok()) {
    XRUN_CHECK(std::ssize(*bytes) <= string.size, "strings are not shorter than what they mean");
  }
  if (const auto text = read_pickle_text(input, string); !text.ok()) {
    XRUN_CHECK(!text.error().message.empty(), "an error has a message");
  }
}

// Counts all levels of a value; ends since values are nested to a limited depth. `budget` ends the visit of values that
// are shared too often.
int depth_of(const Pickle& pickle, PickleId id, int& budget) {
  const PickleValue& value = pickle[id];
  int deepest = 0;
  for (const PickleId part : value.items) {
    deepest = --budget > 0 ? std::max(deepest, depth_of(pickle, part, budget)) : deepest;
  }
  for (const PickleId part : {value.arguments, value.state}) {
    deepest = part != kPickledNone && --budget > 0 ? std::max(deepest, depth_of(pickle, part, budget)) : deepest;
  }
  return 1 + deepest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = pickle_in_memory("input", std::as_bytes(std::span(data, size)));
  const auto numpy = numpy_globals();
  PickleRules rules{.globals = {numpy.begin(), numpy.end()}, .references = true, .most_memory = kMostMemory};
  rules.globals.push_back({"torch._utils", "_rebuild_tensor_v2", 100});
  rules.globals.push_back({"collections", "OrderedDict", 101});
  if (const auto pickle = parse_pickle(*input, 0, rules); pickle.ok()) {
    int budget = 10'000;
    XRUN_CHECK(depth_of(*pickle, pickle->root(), budget) <= kMostPickleDepth, "the depth is limited");
    XRUN_CHECK(pickle->end() <= static_cast<xrun::Bytes>(size), "the pickle is within the input");
    for (PickleId id = 0; id < pickle->values(); ++id) {
      check(*input, (*pickle)[id].string);
      if (const auto array = pickled_array(*pickle, id); array.ok() && array->has_value()) {
        const auto numbers = read_integers(*pickle, **array);
        XRUN_CHECK(!numbers.ok() || std::ssize(*numbers) == (*array)->elements, "an array has its elements");
      }
    }
  }
  if (const auto set = read_pair_set(*input, kMostMemory); set.ok()) {
    XRUN_CHECK(set->pictures.size() == 2 * set->same.size(), "a pair has two pictures");
    for (const PickleString& picture : set->pictures) {
      check(*input, picture);
    }
  }
  return 0;
}
