// The checker's findings about spans of the text, for editors: the types and numbers of a name, a stage or a call, the
// parameters that a call owns, and the arguments that it leaves out. The checker fills the object in
// FrontendOptions::facts, if there is one.
//
// A block is expanded at each of its calls, so one span may have several values; the first few are kept. Memory is
// bounded by the size of the text. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/base/source.h"
#include "graph/graph.h"
#include "lang/elaborate/datum.h"
#include "lang/syntax/loader.h"

namespace xrun::lang {

// The values of one span: "f32[N, 64, 56, 56]", "(f32[N, 8], f32[N, 8])", "64", in the order of their evaluation.
struct ValueFact {
  std::vector<std::string> texts;
  bool has_more = false;  // the span has further values, which are not kept
  TensorType last;        // type of the last text, if it is a tensor
};

// The results of the calls at one span, added up over all expansions.
struct CallFact {
  int64_t tensors = 0;
  int64_t elements = 0;
  std::string first;  // name of the first parameter, "layer1.conv.weight"
  Flops flops = 0;    // flops of the forward part per sample
};

class Facts {
 public:
  void add_value(const Span& at, const Datum& value, const Graph& graph);
  // Records the call at `at`: adds the parameters of `graph` from number `owned` to the last, and `flops` of its nodes.
  void add_call(const Span& at, const Graph& graph, size_t owned, Flops flops);

  // Adds the arguments that a call leaves out, "pad=3 // 2, bias=false". `end`: the end of the called name.
  void add_defaults(int32_t file, uint32_t end, std::string text) {
    defaults_.try_emplace({file, end}, std::move(text));
  }
  // Key: the file and the end of the called name.
  const std::map<std::pair<int32_t, uint32_t>, std::string>& default_arguments() const { return defaults_; }

  // Null if nothing is known about the span.
  const ValueFact* value(const Span& at) const;
  const CallFact* call(const Span& at) const;

  // The files of the check with their trees, the main file first. They refer to the SourceMap and the Diagnostics of
  // the check. Null before the check.
  std::shared_ptr<Loader> files;
  const SourceFile* main = nullptr;  // the main file; null if it could not be read

 private:
  struct Hash {
    size_t operator()(const Span& at) const {
      return (uint64_t{at.begin} << 32 | at.end) * 0x9E3779B97F4A7C15 + static_cast<uint64_t>(at.file);
    }
  };
  std::unordered_map<Span, ValueFact, Hash> values_;
  std::unordered_map<Span, CallFact, Hash> calls_;
  std::map<std::pair<int32_t, uint32_t>, std::string> defaults_;
};

}  // namespace xrun::lang
