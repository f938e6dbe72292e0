// Plans that were edited and got a new valid digest. Each is rejected, or a step gives the result of the original plan.
//   XRUN_FAULT_RUNS=N    edits of each plan (60); `all`: 2,500, that is 12,500 in all
//   XRUN_FAULT_SEED=N    another seed
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <limits>
#include <random>
#include <unistd.h>

#include "planner/plan_file.h"
#include "planner/program/machine.h"
#include "planner/verify/verify_program.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/train_state.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/runs/plan_product.h"

namespace xrun::runtime {
namespace {

using namespace planner;  // NOLINT: every type of a plan
using testing::PlanChoice;
using testing::Prepared;

using Random = std::mt19937_64;
using Edit = std::function<void(Program&, Random&)>;

constexpr int kSteps = 2;

template <typename T>
T& one_of(std::vector<T>& items, Random& random) {
  return items[random() % items.size()];
}

// Returns a number near the old one, or one far away.
template <typename T>
void nudge(T& number, Random& random) {
  constexpr int64_t kFar[] = {-1, 0, 1, 1'000'000, std::numeric_limits<int32_t>::max()};
  const auto by = static_cast<int64_t>(random() % 5) - 2;
  number = static_cast<T>(random() % 4 == 0 ? kFar[random() % std::size(kFar)] : static_cast<int64_t>(number) + by);
}
template <typename Tag>
void nudge(Id<Tag>& id, Random& random) {
  int32_t index = id.index;
  nudge(index, random);
  id = Id<Tag>(index);
}
void nudge(bool& value, Random&) { value = !value; }

template <typename T>
void nudge_list(std::vector<T>& list, Random& random) {
  switch (list.empty() ? 3 : random() % 4) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
      return;
    case 1:
      std::swap(one_of(list, random), one_of(list, random));
      return;
    case 2:
      nudge(one_of(list, random), random);
      return;
    default:
      list.push_back(list.empty() ? T{} : one_of(list, random));
  }
}

// Makes an edit that changes one field of one element of a list.
template <typename T, typename Field>
Edit field_of(std::vector<T> Program::*list, Field T::*field) {
  return [=](Program& p, Random& random) {
    if (!(p.*list).empty()) {
      nudge(one_of(p.*list, random).*field, random);
    }
  };
}
template <typename T, typename Item>
Edit list_of(std::vector<T> Program::*list, std::vector<Item> T::*items) {
  return [=](Program& p, Random& random) {
    if (!(p.*list).empty()) {
      nudge_list(one_of(p.*list, random).*items, random);
    }
  };
}
template <typename Field>
Edit of_program(Field Program::*field) {
  return [=](Program& p, Random& random) { nudge(p.*field, random); };
}
template <typename Field>
Edit of_operand(Field Operand::*field) {
  return [=](Program& p, Random& random) {
    Instruction& one = one_of(p.instructions, random);
    if (!one.operands.empty()) {
      nudge(one_of(one.operands, random).*field, random);
    }
  };
}
template <typename T, typename Enum>
Edit enum_of(std::vector<T> Program::*list, Enum T::*field, int values) {
  return [=](Program& p, Random& random) {
    one_of(p.*list, random).*field = static_cast<Enum>(random() % static_cast<uint64_t>(values));
  };
}

const std::vector<Edit>& all_edits() {
  using I = Instruction;
  constexpr auto kInstructions = &Program::instructions;
  constexpr auto kBuffers = &Program::buffers;
  constexpr auto kStages = &Program::stages;
  constexpr auto kHeads = &Program::heads;
  constexpr auto kArenas = &Program::arenas;
  static const std::vector<Edit> edits{
      enum_of(kInstructions, &I::kind, static_cast<int>(Kind::kSumDx) + 1),
      enum_of(kInstructions, &I::stream, 2),
      field_of(kInstructions, &I::id),
      field_of(kInstructions, &I::device),
      field_of(kInstructions, &I::stage),
      field_of(kInstructions, &I::replica),
      field_of(kInstructions, &I::micro_batch),
      field_of(kInstructions, &I::head),
      field_of(kInstructions, &I::head_pass),
      field_of(kInstructions, &I::gather),
      field_of(kInstructions, &I::shard),
      field_of(kInstructions, &I::group),
      field_of(kInstructions, &I::bytes),
      list_of(kInstructions, &I::nodes),
      list_of(kInstructions, &I::deps),
      list_of(kInstructions, &I::releases),
      [](Program& p, Random& random) { std::swap(one_of(p.instructions, random), one_of(p.instructions, random)); },
      [](Program& p, Random& random) {
        p.instructions.erase(p.instructions.begin() + static_cast<std::ptrdiff_t>(random() % p.instructions.size()));
      },
      [](Program& p, Random& random) { p.instructions.push_back(one_of(p.instructions, random)); },
      [](Program& p, Random& random) {
        std::vector<Operand>& operands = one_of(p.instructions, random).operands;
        if (!operands.empty()) {
          std::swap(one_of(operands, random), one_of(operands, random));
        }
      },
      [](Program& p, Random& random) {
        std::vector<Operand>& operands = one_of(p.instructions, random).operands;
        if (!operands.empty()) {
          operands.pop_back();
        }
      },
      of_operand(&Operand::buffer),
      of_operand(&Operand::node),
      of_operand(&Operand::param),
      of_operand(&Operand::index),
      of_operand(&Operand::count),
      of_operand(&Operand::stride),
      of_operand(&Operand::offset),
      of_operand(&Operand::bytes),
      of_operand(&Operand::step),
      enum_of(kBuffers, &Buffer::purpose, static_cast<int>(Purpose::kHeadSums) + 1),
      field_of(kBuffers, &Buffer::id),
      field_of(kBuffers, &Buffer::device),
      field_of(kBuffers, &Buffer::bytes),
      field_of(kBuffers, &Buffer::offset),
      [](Program& p, Random& random) { one_of(p.buffers, random).offset = one_of(p.buffers, random).offset; },
      field_of(kBuffers, &Buffer::first_use),
      field_of(kBuffers, &Buffer::last_use),
      field_of(kBuffers, &Buffer::persistent),
      field_of(kBuffers, &Buffer::value),
      field_of(kBuffers, &Buffer::param),
      field_of(kBuffers, &Buffer::state),
      field_of(kBuffers, &Buffer::ring),
      field_of(kBuffers, &Buffer::node),
      field_of(kBuffers, &Buffer::node_input),
      field_of(kBuffers, &Buffer::micro_batch),
      field_of(kBuffers, &Buffer::replica),
      field_of(kBuffers, &Buffer::head),
      field_of(kBuffers, &Buffer::head_pass),
      field_of(kBuffers, &Buffer::shard),
      list_of(kStages, &Stage::devices),
      list_of(kStages, &Stage::forward),
      list_of(kStages, &Stage::backward),
      list_of(kStages, &Stage::recomputed),
      list_of(kStages, &Stage::saved),
      list_of(kStages, &Stage::received),
      field_of(kHeads, &HeadPlan::head),
      field_of(kHeads, &HeadPlan::node),
      field_of(kHeads, &HeadPlan::loss),
      field_of(kHeads, &HeadPlan::feature),
      field_of(kHeads, &HeadPlan::feature_grad),
      field_of(kHeads, &HeadPlan::label),
      field_of(kHeads, &HeadPlan::row_factor),
      field_of(kHeads, &HeadPlan::weight),
      field_of(kHeads, &HeadPlan::classes),
      field_of(kHeads, &HeadPlan::dim),
      field_of(kHeads, &HeadPlan::class_block),
      field_of(kHeads, &HeadPlan::rows),
      field_of(kHeads, &HeadPlan::update_sweep),
      field_of(kHeads, &HeadPlan::top_k),
      field_of(kHeads, &HeadPlan::active),
      field_of(kHeads, &HeadPlan::neighbours),
      field_of(kHeads, &HeadPlan::bf16),
      field_of(kHeads, &HeadPlan::frozen),
      [](Program& p, Random& random) { one_of(p.heads, random).row_weight *= 2; },
      [](Program& p, Random& random) { nudge(one_of(one_of(p.heads, random).shards, random).row_end, random); },
      [](Program& p, Random& random) { nudge(one_of(one_of(p.heads, random).shards, random).device, random); },
      [](Program& p, Random& random) { nudge(one_of(one_of(p.heads, random).shards, random).kept_blocks, random); },
      field_of(kArenas, &Arena::bytes),
      field_of(kArenas, &Arena::live_max),
      field_of(kArenas, &Arena::device),
      of_program(&Program::training),
      of_program(&Program::deterministic),
      of_program(&Program::devices),
      of_program(&Program::batch),
      of_program(&Program::norm_rows),
      of_program(&Program::micro_batches),
      of_program(&Program::replicas),
      of_program(&Program::partials),
      of_program(&Program::node_replicas),
      of_program(&Program::sender_replicas),
      of_program(&Program::overlap),
      [](Program& p, Random& random) { nudge_list(p.threads, random); },
      [](Program& p, Random& random) { nudge_list(p.device_nodes, random); },
      [](Program& p, Random& random) {
        if (!p.device_nodes.empty()) {
          nudge(one_of(p.device_nodes, random), random);
        }
      },
      [](Program& p, Random&) {
        p.schedule = p.schedule == PipelineKind::kGpipe ? PipelineKind::kOneFOneB : PipelineKind::kGpipe;
      },
  };
  return edits;
}

// Returns the weights after some steps, or the error.
Result<std::string> run(const Prepared& prepared, const Program& program) {
  const auto devices = make_cpu_devices(program.threads);
  XRUN_ASSIGN(auto session, Session::create(prepared.module, program, *devices, {.isa = prepared.isa}));
  session->state().initialise(prepared.module.train.seed);
  XRUN_TRY(session->weights_changed());
  testing::SyntheticRows rows(prepared.module.graph, testing::hard_model(), 1000);
  XRUN_TRY(rows.start(0, session->ring()));
  for (int step = 0; step < kSteps; ++step) {
    XRUN_TRY(rows.wait(step));
    XRUN_TRY(session->step(step, 0.2, step % static_cast<int>(session->ring().size())));
  }
  return session->state().weights_digest();
}

// Writes the plan to a file and reads it as a run would. Returns the plan or the error that planner::check_fresh gives
// for equal sources and machine.
Result<Plan> through_file(const Plan& plan, const Module& module) {
  XRUN_ASSIGN(Plan loaded, load_plan_bytes(plan_bytes(plan), "edited.xplan"));
  XRUN_TRY(verify_structure(loaded.training, &module.graph));
  XRUN_TRY(verify_module(loaded.training, module));
  return loaded;
}

TEST(EditedPlans, AreRefusedOrGiveTheSameResult) {
  const int64_t edits = xrun::testing::fault_runs(60, 2500);  // number of edits of each plan
  Random random(xrun::testing::fault_seed(29));
  const Prepared prepared = testing::prepare_for(testing::make_module(testing::hard_model()));
  int accepted = 0;
  int refused = 0;
  for (const PlanChoice& choice :
       {PlanChoice{}, PlanChoice{.devices = 2, .threads = 3, .stages = 2, .micro_batches = 3, .shards = 2},
        PlanChoice{.devices = 4,
        .threads = 4,
        .stages = 2,
        .replicas = 2,
        .micro_batches = 4,
        .pipeline = PipelineKind::kOneFOneB,
        .recompute = true,
        .shards = 3},
        PlanChoice{.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 2, .shards = 4},
        PlanChoice{.devices = 6, .threads = 6, .replicas = 2, .micro_batches = 4, .shards = 12, .nodes = 2}}) {
    SCOPED_TRACE(choice.text());
    Plan plan;
    plan.training = testing::make_program(prepared, choice).value();
    plan.inference = testing::make_program(prepared, choice, false).value();
    plan.machine = make_machine({}, {.devices = choice.devices, .threads = choice.threads}, choice.threads, kGiB);
    plan.machine.device_nodes = plan.training.device_nodes;
    const Result<Plan> unedited = through_file(plan, prepared.module);
    ASSERT_TRUE(unedited.ok()) << unedited.error().message;
    ASSERT_EQ(std::ranges::any_of(plan.training.instructions,
                                  [](const Instruction& one) { return one.kind == Kind::kSumDx; }),
              choice.nodes > 1);
    const std::string expected = run(prepared, plan.training).value();
    for (int i = 0; i < edits; ++i) {
      Plan edited = plan;
      const size_t edit = random() % all_edits().size();
      all_edits()[edit](edited.training, random);
      edited.machine.device_nodes = edited.training.device_nodes;
      const Result<Plan> loaded = through_file(edited, prepared.module);
      if (!loaded.ok()) {
        ++refused;
        continue;
      }
      ++accepted;
      ::alarm(60);  // a plan that waits for ever kills the test
      const auto weights = run(prepared, loaded->training);
      ::alarm(0);
      // An error with a message also counts as a rejection.
      if (weights.ok()) {
        EXPECT_EQ(*weights, expected) << choice.text() << ", edit " << edit << ", the " << i << "th";
      }
    }
  }
  EXPECT_GT(refused, 2 * accepted);
  std::cout << refused << " refused, " << accepted << " accepted\n";
}

}  // namespace
}  // namespace xrun::runtime
