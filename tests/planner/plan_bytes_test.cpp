// Bytes of a small plan file are changed, and its digest is made anew. Each such file is refused with a code, or its
// programs compute what those of the unchanged plan compute. `make test` changes bytes that a printed seed selects,
// `make test-faults-full` gives every byte every value (tests/fault_injection/runs.h).
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sys/resource.h>
#include <unistd.h>

#include "graph/base/sha256.h"
#include "graph/os/processor_time.h"
#include "planner/plan_file.h"
#include "planner/program/run_memory.h"
#include "tests/fault_injection/runs.h"
#include "tests/planner/decisions.h"
#include "tests/planner/verify/concrete_run.h"

namespace xrun::planner::testing {
namespace {

// Limits the memory of the process to 512 MiB more than it has, so that a file cannot cause huge allocations unnoticed.
class MemoryLimit {
 public:
  MemoryLimit() {
    getrlimit(RLIMIT_AS, &before_);
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + 512 * kMiB);
    setrlimit(RLIMIT_AS, &now);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

bool is_same(const Instruction& a, const Instruction& b) {
  const auto numbers = [](const Instruction& i) {
    return std::tuple(i.kind, i.device, i.stream, i.stage, i.replica, i.micro_batch, i.head, i.head_pass, i.gather,
                      i.shard, i.group);
  };
  return numbers(a) == numbers(b) && a.nodes == b.nodes && a.operands == b.operands && a.deps == b.deps &&
         a.releases == b.releases;
}

bool is_same(const Buffer& a, const Buffer& b) {
  return key_of(a) == key_of(b) && a.bytes == b.bytes && a.offset == b.offset && a.persistent == b.persistent &&
         a.micro_batch == b.micro_batch;
}

// Whether all that decides what the program computes is equal.
bool is_same(const Program& a, const Program& b) {
  const auto numbers = [](const Program& p) {
    return std::tuple(p.training, p.deterministic, p.threads, p.batch, p.norm_rows, p.micro_batches, p.replicas,
                      p.node_replicas, p.sender_replicas, p.device_nodes, p.partials, p.overlap);
  };
  const auto same_lists = [](const auto& first, const auto& second) {
    return std::ranges::equal(first, second, [](const auto& x, const auto& y) { return is_same(x, y); });
  };
  const auto same_arena = [](const Arena& x, const Arena& y) { return x.device == y.device && x.bytes == y.bytes; };
  const auto same_stage = [](const Stage& x, const Stage& y) {
    return x.devices == y.devices && x.forward == y.forward && x.backward == y.backward && x.recomputed == y.recomputed;
  };
  return numbers(a) == numbers(b) && a.heads == b.heads && same_lists(a.buffers, b.buffers) &&
         same_lists(a.instructions, b.instructions) && std::ranges::equal(a.arenas, b.arenas, same_arena) &&
         std::ranges::equal(a.stages, b.stages, same_stage);
}

// Sets what no run uses to that of the unchanged program: numbers that buffers of a purpose do not have, numbers below
// -1, and bytes after the rows of inputs and results. A step has one replica, so the results of a replica are those of
// all.
void ignore_unused(Program& program, const Program& unchanged) {
  for (size_t i = 0; i < std::min(program.buffers.size(), unchanged.buffers.size()); ++i) {
    Buffer& buffer = program.buffers[i];
    const Buffer& before = unchanged.buffers[i];
    const bool rows = buffer.purpose == Purpose::kInput || buffer.purpose == Purpose::kResult;
    if (buffer.purpose != before.purpose || buffer.device != before.device || (rows && buffer.value != before.value)) {
      continue;
    }
    if (rows) {
      const Bytes bytes = std::min(buffer.bytes, before.bytes);
      const Bytes offset = buffer.offset;
      buffer = before;
      buffer.bytes = bytes;
      buffer.offset = offset;
      continue;
    }
    const bool softmax = buffer.purpose == Purpose::kHeadSoftmax;
    buffer.value = buffer.value.valid() && !softmax ? buffer.value : before.value;
    buffer.param = buffer.param.valid() && !softmax ? buffer.param : before.param;
    buffer.ring = before.ring;
    if (buffer.purpose != Purpose::kOptimizer && buffer.purpose != Purpose::kHeadOptimizer) {
      buffer.state = before.state;
    }
    if (buffer.purpose != Purpose::kPrepared) {
      buffer.node = before.node;
      buffer.node_input = before.node_input;
    }
    buffer.head = before.head < 0 ? before.head : buffer.head;
    buffer.shard = before.shard < 0 ? before.shard : buffer.shard;
    buffer.head_pass = before.persistent ? before.head_pass : buffer.head_pass;
  }
}

class ChangedPlans {
 public:
  ChangedPlans() {
    const Module module =
        make_module({.layers = 1, .input = 4, .width = 4, .classes = 150, .head = true, .batch = 4, .norm_rows = 2});
    training_ = prepare_training(module);
    inference_ = prepare_inference(module);
    facts_ = make_facts(training_);
    plan_.id = "12345678";
    plan_.machine = make_test_machine(1);
    plan_.training = emit_layout(training_, {.micro_batches = 2}).value();
    plan_.inference = emit_layout(inference_, {.micro_batches = 2}, false).value();
    plan_.machine.memory = 2 * run_memory(training_, plan_.training, plan_.inference).sum();
    plan_.math_digest = training_.math_digest;
    plan_.facts_digest = facts_.digest;
    plan_.isa = facts_.isa;
    bytes_ = plan_bytes(plan_);
    bytes_.resize(bytes_.size() - sizeof(Sha256));
    EXPECT_TRUE(check_fresh(plan_, training_, facts_, plan_.machine, &inference_).ok());
    EXPECT_EQ(check(bytes_), "");
    EXPECT_EQ(same_, 1);
  }

  size_t size() const { return bytes_.size(); }
  std::byte at(size_t place) const { return bytes_[place]; }
  int64_t refused() const { return refused_; }
  int64_t same() const { return same_; }
  int64_t other() const { return other_; }

  // Returns what is wrong with the answer to a file that has these bytes in place of its own; "" if it is right.
  std::string check(const std::vector<std::pair<size_t, std::byte>>& changes) {
    std::vector<std::byte> bytes = bytes_;
    for (const auto& [place, value] : changes) {
      bytes[place] = value;
    }
    return check(std::move(bytes));
  }

 private:
  std::string check(std::vector<std::byte> bytes) {
    const Sha256 digest = sha256(bytes);
    bytes.insert(bytes.end(), digest.begin(), digest.end());
    const Seconds begin = thread_processor_time();
    const std::string wrong = answer(bytes);
    const Seconds time = thread_processor_time() - begin;
    return wrong.empty() && time > 2 ? fmt::format("takes {} s", time) : wrong;
  }

  std::string answer(const std::vector<std::byte>& bytes) {
    const auto plan = load_plan_bytes(bytes);
    if (!plan.ok()) {
      return refuse(plan.error());
    }
    if (is_same(plan->training, plan_.training) && is_same(plan->inference, plan_.inference)) {
      ++same_;
      return "";
    }
    const Status fresh = check_fresh(*plan, training_, facts_, plan_.machine, &inference_);
    if (!fresh.ok()) {
      return refuse(fresh.error());
    }
    ++other_;
    return computes_the_same(plan->training, plan_.training) && computes_the_same(plan->inference, plan_.inference)
               ? ""
               : "is accepted and computes something else";
  }

  static bool computes_the_same(Program program, const Program& unchanged) {
    ignore_unused(program, unchanged);
    return ConcreteRun(program, 1).run() == ConcreteRun(unchanged, 2).run();
  }

  std::string refuse(const Error& error) {
    ++refused_;
    static const std::set<std::string> kCodes{"XG0621", "XG0622", "XG0624", "XG0625"};
    const bool right = error.kind == ErrorKind::kContent && kCodes.contains(error.code) && !error.message.empty() &&
                       !error.help.empty();
    return right ? "" : "is refused with " + error.code + " " + error.message;
  }

  Module training_;
  Module inference_;
  KernelFacts facts_;
  Plan plan_;
  std::vector<std::byte> bytes_;  // without the digest
  int64_t refused_ = 0;
  int64_t same_ = 0;
  int64_t other_ = 0;  // accepted plans with another program
};

TEST(PlanBytes, ChangedPlansAreRefusedOrComputeTheSame) {
  ChangedPlans plans;
  const MemoryLimit limit;
  const auto all = static_cast<int64_t>(plans.size()) * 255;
  const int64_t runs = xrun::testing::fault_runs(20'000, all);
  if (runs == all) {
    for (size_t place = 0; place < plans.size(); ++place) {
      for (int change = 1; change < 256; ++change) {
        const std::byte value = plans.at(place) ^ static_cast<std::byte>(change);
        ASSERT_EQ(plans.check({{place, value}}), "") << "byte " << place << " is " << std::to_integer<int>(value);
      }
    }
  } else {
    std::mt19937_64 random(xrun::testing::fault_seed(51));
    for (int64_t run = 0; run < runs; ++run) {
      std::vector<std::pair<size_t, std::byte>> changes(random() % 4 == 0 ? 1 + random() % 4 : 1);
      for (auto& [place, value] : changes) {
        place = random() % plans.size();
        value = plans.at(place) ^ static_cast<std::byte>(1 + random() % 255);
      }
      ASSERT_EQ(plans.check(changes), "")
          << "run " << run << ", byte " << changes[0].first << " is " << std::to_integer<int>(changes[0].second);
    }
  }
  std::cout << plans.size() << " bytes, " << runs << " files: " << plans.refused() << " refused, " << plans.same()
            << " with equal programs, " << plans.other() << " with others that compute the same\n";
  EXPECT_GT(plans.refused() * 4, runs);
}

}  // namespace
}  // namespace xrun::planner::testing
