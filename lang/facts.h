// What the checker has found out about spans of the text, for editors: the types and numbers that stand for a name, a
// stage or a call, and the parameters that a call owns. The checker fills it where FrontendOptions::facts is set.
//
// A block is expanded wherever it is called, so one span may have several values; the first few are kept. Memory is
// bounded by the size of the text. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "graph/base/source.h"
#include "graph/graph.h"
#include "lang/elaborate/datum.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// What one span stands for: "f32[N, 64, 56, 56]", "(f32[N, 8], f32[N, 8])", "64", in the order in which they were met.
struct ValueFact {
  std::vector<std::string> texts;
  bool has_more = false;  // further values that are not kept
  TensorType last;        // of the last text, where that is a tensor
};

// The parameters that calls at one span made, of all expansions together.
struct CallFact {
  int64_t tensors = 0;
  int64_t elements = 0;
  std::string first;  // the name of the first one, "layer1.conv.weight"
};

class Facts {
 public:
  void add_value(const Span& at, const Datum& value, const Graph& graph);
  // The parameters of `graph` from number `owned` on belong to the call at `at`.
  void add_call(const Span& at, const Graph& graph, size_t owned);

  // Null where nothing is known of the span.
  const ValueFact* value(const Span& at) const;
  const CallFact* call(const Span& at) const;

  // The files of the check with their trees, the main file first. They refer to the SourceMap and the Diagnostics of
  // the check. Null before it.
  std::shared_ptr<Loader> files;
  const SourceFile* main = nullptr;  // null if it could not be read

 private:
  struct Before {
    bool operator()(const Span& a, const Span& b) const {
      return std::tie(a.file, a.begin, a.end) < std::tie(b.file, b.begin, b.end);
    }
  };
  std::map<Span, ValueFact, Before> values_;
  std::map<Span, CallFact, Before> calls_;
};

}  // namespace xrun::lang
