// Optimizers of lang/std/optimizers.xgraph for tests that do not link the language: sgd, adamw, lars and lamb.
// tests/lang/own_optimizer_test.cpp compares them with the library.
#pragma once

#include <string>

#include "graph/specs.h"

namespace xrun::test {

// The call with its update rule; arguments that are not given have the defaults of the library.
CallSpec optimizer(const std::string& name, Attrs arguments = {});

}  // namespace xrun::test
