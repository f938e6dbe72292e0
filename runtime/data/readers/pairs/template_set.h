// The two lists of a set of templates, as IJB-B and IJB-C have them: pictures ("1.jpg 1 69544": path, template, medium)
// and pairs of templates ("1 11065 1": two templates, and whether they are of one person).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"
#include "graph/settings/template_pairs.h"

namespace xrun::runtime {

struct TemplateSet {
  TemplatePairs pairs;             // samples are sorted by template, then by medium, and else in the order of the list
  std::vector<std::string> names;  // the names of the templates, in the order in which the list first has them
  std::string text;                // the paths of the pictures
  std::vector<size_t> begins;      // [samples]: where the path of a sample begins in `text`; it ends with a line feed

  std::string_view path_of(size_t sample) const;
  // 8 bytes for each pair, 16 for each picture, and the texts.
  Bytes memory() const;
};

// Reads both lists line by line. Columns are separated by tabs, or in a line without a tab by spaces. A list of
// pictures without a third column has one medium for each picture. Lines that are empty, a byte order mark and carriage
// returns at the ends of lines are skipped. Errors: those of visit_lines; XG0412, with the line: another number of
// columns, a flag that is neither 1 nor 0, a pair of a template without a picture; a list without lines; more than
// `most_memory`.
Result<TemplateSet> read_template_set(const std::string& pictures, const std::string& pairs, Bytes most_memory,
                                      StopFlag stop = nullptr);

}  // namespace xrun::runtime
