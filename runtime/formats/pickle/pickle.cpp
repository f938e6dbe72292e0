// A pickle is a sequence of instructions of one byte with operands (Python's Lib/pickletools.py lists all of them).
// They work on a stack of values, on marks in it, and on a memo, from which earlier values are taken again:
//   ]                 push an empty list
//   (  ... e          push a mark; pop the values above it, and append them to the list below
//   c MODULE NAME     push a function or a type
//   R                 pop a tuple and a function; push the result of the call (here: a node)
//   b                 pop a state; hand it to the object below
//   q N   h N         store the top of the stack in the memo; push a value from it
//   .                 end; the top of the stack is the result
// Values are numbered in a vector, so nothing is copied, and a deep tree is destroyed without recursion.
#include "runtime/formats/pickle/pickle.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "graph/base/errors.h"
#include "runtime/formats/pickle/pickle_machine.h"
#include "runtime/formats/pickle/pickle_nesting.h"

namespace xrun::runtime {

std::string_view name_of(PickleKind kind) {
  constexpr std::string_view kNames[] = {"None",          "a bool", "an integer", "a big integer", "a float",
                                         "a byte string", "a str",  "a text",     "a tuple",       "a list",
                                         "a set",         "a dict", "a function", "an object",     "a reference"};
  return kNames[static_cast<size_t>(kind)];
}

Error Pickle::fault(PickleId at, std::string_view why) const {
  return damaged_pickle(input_->name(), values_[at].at, why);
}

Result<Pickle> parse_pickle(const PickleInput& input, Bytes offset, const PickleRules& rules, StopFlag stop) {
  PickleMachine machine(input, offset, rules);
  constexpr int kBetweenStops = 4096;
  for (int64_t count = 0; !machine.done(); ++count) {
    if (count % kBetweenStops == 0) {
      XRUN_TRY(check_stop(stop));
    }
    XRUN_TRY(machine.step());
  }
  XRUN_ASSIGN(Pickle pickle, machine.take());
  XRUN_TRY(check_nesting(pickle));
  return pickle;
}

}  // namespace xrun::runtime
