// The verifier's checks of active classes and of the graph that selects them.
#include <gtest/gtest.h>

#include "tests/planner/verify/verify_case.h"

namespace xrun::planner {
namespace {

using testing::Case;
using testing::CaseOptions;
using testing::complaint;
using testing::drop;
using testing::expect_found;
using testing::expect_operand_found;
using testing::find;
using testing::find_buffer;
using testing::make_case;
using testing::operand;

const CaseOptions kKnn{.knn = true};

int count(const Program& program, Kind kind) {
  return static_cast<int>(std::ranges::count(program.instructions, kind, &Instruction::kind));
}

TEST(VerifySelection, EveryShardSelectsOnceAStepBeforeItsPasses) {
  const Case made = make_case(kKnn);
  EXPECT_EQ(complaint(made), "");
  EXPECT_EQ(count(made.program, Kind::kHeadSelect), 3);
  EXPECT_EQ(count(made.program, Kind::kHeadMass), 3);
  EXPECT_EQ(made.program.instructions.front().kind, Kind::kHeadSelect);
  EXPECT_EQ(made.program.heads[0].active, 810);
}

TEST(VerifySelection, NothingIsSelectedIfAllClassesAreActive) {
  const Case made = make_case();
  EXPECT_EQ(count(made.program, Kind::kHeadSelect), 0);
  EXPECT_EQ(made.program.heads[0].active, 0);
  const Case inference = make_case({.knn = true, .training = false});
  EXPECT_EQ(complaint(inference), "");
  EXPECT_EQ(count(inference.program, Kind::kHeadSelect), 0);
}

TEST(VerifySelection, FindsSelectionsThatAreLeftOutOrElsewhere) {
  expect_found(
      "before its classes are selected", [](Program& p) { find(p, Kind::kHeadSelect).kind = Kind::kFoldPartials; },
      kKnn);
  expect_found(
      "once more or elsewhere", [](Program& p) { find(p, Kind::kHeadSelect).shard = 1; }, kKnn);
  expect_found(
      "of no head", [](Program& p) { find(p, Kind::kHeadSelect).head = -1; }, kKnn);
}

TEST(VerifySelection, FindsMissingOperandsAndOperandsOfOthers) {
  for (const Role role : {Role::kLabel, Role::kLists, Role::kSelection}) {
    expect_operand_found(
        "where its operand", [=](Program& p) { drop(find(p, Kind::kHeadSelect), role); }, kKnn);
  }
  const CaseOptions apart{.pipeline = PipelineKind::kOneFOneB, .knn = true};  // head sweeps are separate instructions
  for (const Kind kind : {Kind::kHeadForward, Kind::kHeadBackward, Kind::kReduceStats, Kind::kHeadUpdate}) {
    expect_operand_found(
        "where its operand", [=](Program& p) { drop(find(p, kind), Role::kSelection); }, apart);
    expect_operand_found(
        "has a part of buffer",
        [=](Program& p) {
          operand(find(p, kind), Role::kSelection).buffer =
              find_buffer(p, [](const Buffer& b) { return b.purpose == Purpose::kHeadSelection && b.shard == 2; }).id;
        },
        apart);
  }
}

TEST(VerifySelection, FindsMeasurementsWithWrongOperands) {
  for (const Role role : {Role::kFeature, Role::kLabel, Role::kSelection, Role::kMass, Role::kWeight, Role::kScratch}) {
    expect_operand_found(
        "where its operand", [=](Program& p) { drop(find(p, Kind::kHeadMass), role); }, kKnn);
  }
  expect_operand_found(
      "measures no head", [](Program& p) { find(p, Kind::kHeadMass).head_pass = 1; }, kKnn);
  expect_operand_found(
      "works on no shard of its device", [](Program& p) { find(p, Kind::kHeadMass).shard = 1; }, kKnn);
}

TEST(VerifySelection, FindsMemoryThatIsTooSmallOrMissing) {
  for (const Purpose purpose : {Purpose::kHeadSelection, Purpose::kHeadMass, Purpose::kHeadLists,
                                Purpose::kHeadSnapshot, Purpose::kHeadBuild}) {
    expect_operand_found(
        "bytes for", [=](Program& p) { find(p, purpose).bytes -= 64; }, kKnn);
    expect_operand_found(
        "does not fit what it is for", [=](Program& p) { find(p, purpose).persistent = false; }, kKnn);
  }
  for (const Purpose purpose : {Purpose::kHeadSnapshot, Purpose::kHeadBuild}) {
    expect_operand_found(
        "of no head with lists", [=](Program& p) { find(p, purpose).purpose = Purpose::kHeadLists; }, kKnn);
  }
}

TEST(VerifySelection, FindsAnotherNumberOfActiveClasses) {
  expect_operand_found(
      "is not `id` of the model", [](Program& p) { p.heads[0].active = 700; }, kKnn);
  expect_found(
      "of them active", [](Program& p) { p.heads[0].active = p.heads[0].classes; }, kKnn);
}

}  // namespace
}  // namespace xrun::planner
