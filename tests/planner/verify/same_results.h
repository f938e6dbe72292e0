// Edits of a program that change neither what it computes nor what the verifier has to refuse.
#pragma once

#include "tests/planner/verify/concrete_run.h"
#include "tests/planner/verify/mutants.h"
#include "tests/planner/verify/verify_case.h"

namespace xrun::planner::testing {

// Expects that the verifier accepts the edited program, and that it computes the same bytes as before.
inline void expect_same_results(const std::function<void(Program&)>& edit, const CaseOptions& options = {}) {
  Case made = make_case(options);
  const auto wanted = ConcreteRun(made.program, 1).run();
  edit(made.program);
  derive_anew(made.program);
  const Status status = verify_program(made.program, made.module);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(ConcreteRun(made.program, 2).run(), wanted);
}

}  // namespace xrun::planner::testing
