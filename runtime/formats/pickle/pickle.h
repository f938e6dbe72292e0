// Reads pickles, the files of Python's module `pickle`, protocols 0 to 5. Python runs a pickle as a program that may
// call any function. This reader runs none: it builds a tree of plain values, in which a call is a node with the name
// of a function and its arguments. The caller lists the functions that may be named, and gives them their meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle_input.h"
#include "runtime/formats/pickle/pickle_string.h"

namespace xrun::runtime {

enum class PickleKind : uint8_t {
  kNone,
  kBool,        // number: 0 or 1
  kInteger,     // number
  kBigInteger,  // an integer outside of i64; string: its bytes, little-endian, except in protocol 0
  kFloat,       // real
  kBytes,       // string: bytes and bytearray
  kString,      // string: the str of Python 2, bytes or text
  kText,        // string
  kTuple,       // items
  kList,        // items
  kSet,         // items: set and frozenset
  kDict,        // items: key, value, key, value ...
  kGlobal,      // number: PickleGlobal::meaning of the function or type
  kCall,        // number: likewise; arguments, a tuple; state and items if the pickle sets them
  kReference,   // items: the persistent id, by which a pickle refers to an object that is stored elsewhere
};

// "a list", "an integer", for messages.
std::string_view name_of(PickleKind kind);

using PickleId = uint32_t;  // the number of a value in its pickle
inline constexpr PickleId kPickledNone = 0;

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  PickleId arguments = kPickledNone;
  PickleId state = kPickledNone;  // kCall: value that BUILD hands to the object; kPickledNone without one
  Bytes at = 0;                   // offset in the file of the instruction that makes the value, for messages
  int64_t number = 0;
  double real = 0;
  PickleString string;
  // Elements; for kCall, the elements that are appended to the object, or its keys and values.
  std::vector<PickleId> items;
};

// A function or a type that a pickle may name, "numpy.core.multiarray" "_reconstruct". Several names may have one
// meaning, a number above 0.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
  int meaning = 0;
};

struct PickleRules {
  std::vector<PickleGlobal> globals;
  bool references = false;         // whether persistent ids are allowed
  std::string_view help;           // help of XG0407: what is allowed, and how the file can be converted
  Bytes most_memory = 256 * kMiB;  // limit for the memory of the values
};

// The values of a pickle. No value contains itself, and values are nested at most kMostPickleDepth deep, so that
// functions may descend recursively. But values may be shared, so a tree may be exponentially larger than its pickle: a
// function that visits all of it must visit each id once.
inline constexpr int kMostPickleDepth = 100;

class Pickle {
 public:
  Pickle(const PickleInput& input, std::vector<PickleValue> values, PickleId root, Bytes end)
      : input_(&input), values_(std::move(values)), root_(root), end_(end) {}

  const PickleInput& input() const { return *input_; }
  const PickleValue& operator[](PickleId id) const { return values_[id]; }
  size_t values() const { return values_.size(); }
  PickleId root() const { return root_; }
  Bytes end() const { return end_; }  // offset after the last byte; another pickle may follow

  // The error XG0412 for a value that is well formed but not the one that is wanted: "FILE: offset 12: why".
  Error fault(PickleId at, std::string_view why) const;

 private:
  const PickleInput* input_;
  std::vector<PickleValue> values_;
  PickleId root_;
  Bytes end_;
};

// Reads the pickle that begins at `offset`. `input` must outlive the result. Strings are skipped, not read. Time and
// memory grow with the number of instructions, which is less than that of the file's bytes. Errors: XG0407 the pickle
// names a function that `rules` does not list, or needs other code of Python; XG0412 it is damaged, nested too deeply,
// contains itself, or needs more memory than `most_memory`; those of the input; kInterrupted.
Result<Pickle> parse_pickle(const PickleInput& input, Bytes offset, const PickleRules& rules, StopFlag stop = nullptr);

}  // namespace xrun::runtime
