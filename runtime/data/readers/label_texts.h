// Labels that a list gives as texts: numbers of classes, or names of classes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/types/attr.h"

namespace xrun::runtime {

// The labels of the samples. If all texts are whole numbers, also 7.0, they are the numbers of the classes. Otherwise
// each text is the name of a class, and the classes are numbered in byte order of their names.
struct ListLabels {
  std::vector<int32_t> labels;     // one for each sample; a number may be below 0, which means that there is no label
  std::vector<std::string> names;  // names of the classes; empty if the texts are numbers
  int64_t classes = 0;
};

// Collects the texts. One thread at a time.
class LabelTexts {
 public:
  // Adds the label of the next sample, found at `line` of `path`.
  void add(std::string_view text, const std::string& path, int64_t line);
  // Determines the labels; `args` may have `classes`, which means that the texts must be numbers. Takes the texts out
  // of this object. Errors: XG0402 with the line: all texts are numbers, but one is not whole, or too large for the
  // argument `classes` or for the number of samples (count_classes); XG0412 the first text alone is not a number.
  Result<ListLabels> resolve(const Attrs& args, const std::string& path);

 private:
  struct Text {
    std::string text;
    std::string place;  // where it is used first, "list.txt:7"
    int64_t uses = 0;
  };

  Result<ListLabels> as_numbers(const Attrs& args, const std::string& path);
  ListLabels as_names();

  std::vector<Text> texts_;  // in the order of their first use
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<int32_t> samples_;  // the position of each sample's text
};

}  // namespace xrun::runtime
