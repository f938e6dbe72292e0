// The result of one `test` block.
#pragma once

#include <string>

namespace xrun::lang {

struct TestResult {
  std::string name;
  int expectations = 0;
  bool passed = false;  // a failed test has reported a diagnostic
};

}  // namespace xrun::lang
