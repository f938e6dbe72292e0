// The settings of `data`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/types/attr.h"

namespace xrun {

// A call by name with constant arguments: a reader, an augmentation, an optimizer, a metric.
struct CallSpec {
  std::string name;
  Attrs args;
  Span span;
};

struct SourceSpec {
  std::string name;
  CallSpec reader;
  std::string directory;  // directory of the declaring file: relative paths in `reader` start here
  Span span;
  // Memory of the reader, in a module from a plan file, which lacks the reader's arguments; -1: not counted. Other
  // modules have nullopt (ReaderDef::held).
  std::optional<Bytes> held = {};
};

// `target = field -> stages`: fills an input of the model, or the label, from a field of every source.
struct DataBinding {
  std::string target;
  std::string field;
  std::vector<CallSpec> stages;
  Span span;
};

// The place in the text that sets the number of classes of an input's labels.
struct ClassCount {
  std::string input;
  Span span;
};

// `classes { moved cat -> zebra }`: a class has another name in the data than in earlier checkpoints.
struct MovedClass {
  std::string from;
  std::string to;
  std::string input;  // `classes label { ... }`; empty: every input
  Span span;
};

struct DataSpec {
  std::string name;
  std::vector<SourceSpec> sources;
  std::vector<DataBinding> bindings;
  std::vector<ClassCount> class_counts;
  std::vector<MovedClass> moved_classes;
  double max_bad = 0.001;
  Span span;
};

}  // namespace xrun
