// Optimizers of lang/std/optimizers.xgraph for tests that do not link the language: sgd, adamw, lars and lamb.
// tests/lang/elaborate/bodies/own_optimizer_test.cpp compares them with the library.
#pragma once

#include <string>

#include "graph/settings/specs.h"

namespace xrun::test {

// Returns the call of an optimizer with its update rule. Arguments that are not given have the library's defaults.
CallSpec optimizer(const std::string& name, Attrs arguments = {});

}  // namespace xrun::test
