// Diagnostics as a log in SARIF 2.1.0 (OASIS), which code-review tools and continuous integration read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/base/diagnostic.h"
#include "graph/base/source.h"

namespace xrun::cli {

// Collects the diagnostics of one `xrun check` over any number of files: a rule for each code, a result for each
// diagnostic.
class SarifLog {
 public:
  void add(const Diagnostic& diagnostic, const SourceMap& sources);
  // The whole document, ending in a newline. Columns count code points from 1.
  std::string text(const std::string& version) const;

 private:
  size_t rule_of(const std::string& code);

  std::vector<std::string> codes_;
  nlohmann::ordered_json results_ = nlohmann::ordered_json::array();
};

}  // namespace xrun::cli
