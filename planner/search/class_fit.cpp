// Steps: for each choice of active classes and formats, search the largest number of classes that has a plan. Only
// numbers with three significant digits are tried; the search works on their indices. It keeps the largest index that
// fits and the smallest one that does not. The first few tries are guesses: after a number that fits, a larger one at
// doubling distance; after one that does not fit, the number that would save the excess of memory, since memory is
// nearly linear in the number of classes. If the guesses do not meet, bisection ends the search. Each try makes only
// one program, since one is sufficient to show whether the number fits.
#include "planner/search/class_fit.h"

#include <algorithm>
#include <cmath>

#include "graph/base/errors.h"
#include "planner/cost/graph_builds.h"
#include "planner/search/fixes.h"
#include "planner/search/head_choices.h"
#include "planner/search/heads.h"

namespace xrun::planner {
namespace {

constexpr int64_t kMostClasses = INT32_MAX;
// The effort of a try: one program is sufficient to show whether anything fits.
constexpr Effort kOneProgram{.wanted = 1, .of_kind = 1, .refused = 1};
// The number of plans with guessed numbers of classes for one choice; after these, the search continues by bisection.
constexpr int kGuesses = 8;

// Returns the number of classes at an index in the ascending list of numbers with at most three significant digits: 1
// .. 99, then 100 .. 999 times each power of ten.
int64_t number_at(int64_t place) {
  if (place < 100) {
    return place;
  }
  int64_t number = 100 + (place - 100) % 900;
  for (int64_t zeros = (place - 100) / 900; zeros > 0; --zeros) {
    number *= 10;
  }
  return number;
}

// Returns the index in this list of the largest number that is at most `number`.
int64_t place_of(int64_t number) {
  int64_t zeros = 0;
  for (; number >= 1000; number /= 10) {
    ++zeros;
  }
  return number < 100 ? std::max<int64_t>(0, number) : number + 900 * zeros;
}

// The bytes of class rows with their states, scales and other values.
Bytes row_bytes(const Program& program) {
  Bytes sum = 0;
  for (const Buffer& buffer : program.buffers) {
    sum += buffer.persistent && buffer.shard >= 0 && !is_mapped(program, buffer) ? buffer.bytes : 0;
  }
  return sum;
}

// The search for one choice.
class Search {
 public:
  Search(const FitInput& base, size_t head, const HeadChoice& choice, const MemoryLimits& limits,
         const std::function<bool()>& in_time)
      : base_(base),
        head_(head),
        training_(with_choice(base.search.module, head, choice)),
        inference_(with_choice(base.inference, head, choice)),
        limits_(limits),
        in_time_(in_time) {}

  // Returns the result for this choice. `guess` is the first number of classes to try.
  Result<ClassFit> run(int64_t guess) {
    int64_t at = place_of(std::min(guess, kMostClasses));
    int64_t stride = 1;
    for (int plans = 0; refused_ - fits_ > 1; ++plans) {
      if (!in_time_()) {
        return found_;
      }
      at = plans < kGuesses ? std::clamp(at, fits_ + 1, refused_ - 1) : (fits_ + refused_) / 2;
      XRUN_TRY(try_plan(at));
      at = fits_ == at ? at + stride : next_guess(at, stride);
      stride *= 2;
    }
    found_.complete = true;
    return found_;
  }

  // Returns the memory that the last plan that did not fit would need.
  const MemoryLimits& needed() const { return needed_; }

 private:
  Status try_plan(int64_t place) {
    const int64_t classes = number_at(place);
    const auto choice = choose_changed(base_, with_classes(training_, head_, classes),
                                       with_classes(inference_, head_, classes), limits_, kOneProgram);
    over_ = 0;
    if (choice.ok() && !choice->fitted.empty()) {
      const Fitted& fitted = choice->fitted[0];
      fits_ = place;
      found_.classes = classes;
      found_.step = fitted.predicted.step;
      found_.memory = fitted.memory.sum();
      found_.device = fitted.largest_device;
      for (const GraphBuild& graph : graph_builds(fitted.training, base_.search.cost)) {
        found_.graph = static_cast<size_t>(graph.head) == head_ ? graph.time() : found_.graph;
      }
      return {};
    }
    refused_ = place;
    if (!choice.ok()) {
      return choice.error().code == "XG0604" ? Status() : Status(choice.error());  // fewer class blocks than shards
    }
    const Fitted& least = choice->smallest;
    needed_ = {least.memory.sum(), least.largest_device, least.largest_node()};
    const Bytes whole = std::max<Bytes>(0, least.memory.sum() - limits_.total);
    const Bytes device = limits_.device > 0 ? std::max<Bytes>(0, least.largest_device - limits_.device) : 0;
    const Bytes node = limits_.node > 0 ? std::max<Bytes>(0, least.largest_node() - limits_.node) : 0;
    constexpr ClassLimit kLimits[] = {ClassLimit::kMemory, ClassLimit::kNode, ClassLimit::kDevice};
    found_.limit = kLimits[static_cast<size_t>(exceeded_by(least, limits_))];
    const Bytes rows = row_bytes(least.training) + (least.memory.evaluation > 0 ? row_bytes(least.inference) : 0);
    const double each = static_cast<double>(std::max<Bytes>(1, rows)) / static_cast<double>(classes);
    const Machine& machine = base_.search.machine;
    over_ = static_cast<double>(std::max({whole, node * machine.nodes(), device * machine.devices})) / each;
    return {};
  }

  // Returns the next guess after index `refused` did not fit: the number that would save the excess of memory.
  int64_t next_guess(int64_t refused, int64_t stride) const {
    const auto by_size = static_cast<int64_t>(static_cast<double>(number_at(refused)) - std::ceil(over_));
    return over_ > 0 ? std::min(place_of(by_size), refused - 1) : refused - stride;
  }

  const FitInput& base_;
  size_t head_;
  Module training_;
  Module inference_;
  const MemoryLimits& limits_;
  const std::function<bool()>& in_time_;
  MemoryLimits needed_;                           // memory of the last plan that did not fit
  int64_t fits_ = 0;                              // index of the largest number that is known to fit
  int64_t refused_ = place_of(kMostClasses) + 1;  // index of the smallest number that does not fit
  double over_ = 0;                               // excess of that plan over the limits, in classes
  ClassFit found_{.limit = ClassLimit::kNumbers};
};

// Returns the error if not even one class fits with any choice. `least` is the memory of the choice nearest to the
// limits.
Error no_room(const Module& training, const Machine& machine, const MemoryLimits& limits, const MemoryLimits& least) {
  const auto& hint = training.schedule.memory_limit;
  const bool device = (hint || machine.has_gpus()) && least.device > limits.device;
  const bool node = !device && limits.node > 0 && least.total <= limits.total;
  const bool of_gpu = device && machine.has_gpus() && limits.device == machine.device_memory;
  const std::string needs =
      device ? format_bytes(least.device) + " on a device, and " +
                   (of_gpu ? device_limit_text(machine, limits.device)
                           : "`memory_limit` is " + format_bytes(limits.device))
      : node ? format_bytes(least.node) + " on a node, and " + format_bytes(limits.node) + " are usable on each"
             : format_bytes(least.total) + ", and " + format_bytes(limits.total) + " are usable";
  return {ErrorKind::kInfeasible, "XG0601", "not even a head of one class fits: a plan needs " + needs,
          of_gpu   ? "make the other layers or the batch smaller"
          : device ? "raise `memory_limit`, or leave it out"
                   : "free memory, lower `reserve` of the cluster, or make the other layers or the batch smaller",
          device && hint ? hint->span : training.train.batch_span};
}

}  // namespace

Result<ClassFits> fit_classes(const ClassFitInput& input) {
  const Module& training = input.training;
  const Machine& machine = input.machine;
  const CostModel cost(input.training_facts, machine);
  const CostModel inference_cost(input.inference_facts, machine);
  const Chain chain = make_chain(training, cost);
  const Chain inference_chain = make_chain(input.inference, inference_cost);
  const SearchInput space{training, chain, cost, machine, {}, input.deterministic || training.train.deterministic};
  ClassFits fits;
  FitInput base{space, input.inference, input.inference_facts, inference_chain, inference_cost};
  base.realised = &fits.plans;
  XRUN_ASSIGN(const std::vector<HeadPlan> heads, plan_heads(training, chain, machine, training.train.batch));
  const auto largest = largest_head(heads);
  if (!largest) {
    return content_error("XG0629", "`--fit classes` needs a sharded head that is trained, and the model has none",
                         "give the model a `head` of `classifier` or `cosine_classifier`");
  }
  const HeadPlan& head = heads[*largest];
  const int states = training_heads(training).states;
  const MemoryLimits limits = memory_limits(training, machine);
  fits.head = training.graph.heads[static_cast<size_t>(head.head)].name;
  fits.classes = head.classes;
  fits.dim = head.dim;
  const HeadChoice now = choice_of(training, head);
  const HeadChoice* before = nullptr;
  MemoryLimits least;
  const std::vector<HeadChoice> choices = head_choices(training, head);
  for (const HeadChoice& choice : choices) {
    // The number of classes that fit hardly depends on the active classes, so start from the previous result.
    const int64_t guess = before != nullptr && before->same_rows(choice) && fits.choices.back().classes > 0
                              ? fits.choices.back().classes
                              : limits.total / (head.dim * element_bytes(choice.weights));
    Search search(base, static_cast<size_t>(head.head), choice, limits, input.in_time);
    XRUN_ASSIGN(ClassFit found, search.run(std::max<int64_t>(guess, 1)));
    const MemoryLimits& needed = search.needed();
    if (found.complete && found.classes == 0 &&
        (least.total == 0 || limits.share(needed.total, needed.device, needed.node) <
                                 limits.share(least.total, least.device, least.node))) {
      least = needed;
    }
    found.choice = choice;
    found.states = states;
    found.of_text = choice.same_rows(now) && choice.same_active(now);
    fits.choices.push_back(std::move(found));
    before = &choice;
  }
  const bool none =
      std::ranges::all_of(fits.choices, [](const ClassFit& fit) { return fit.complete && fit.classes == 0; });
  if (none) {
    return no_room(training, machine, limits, least);
  }
  return fits;
}

}  // namespace xrun::planner
