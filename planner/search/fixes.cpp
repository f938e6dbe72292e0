#include "planner/search/fixes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace xrun::planner {
namespace {

// Whether anything fits.
constexpr Effort kOneProgram{.wanted = 1, .of_kind = 1, .refused = 1};

std::string line_of(const std::string& change, const Fitted& fitted, const char* note) {
  char text[256];
  const std::string speed = format_count(std::llround(fitted.predicted.images_per_second));
  std::snprintf(text, sizeof text, "%-44s %10s  %8s images/s%s", change.c_str(),
                format_bytes(fitted.memory.sum()).c_str(), speed.c_str(), note);
  return text;
}

bool has_hints(const ScheduleSpec& schedule) {
  return schedule.stages || schedule.micro_batches || schedule.pipeline || schedule.replicas || schedule.recompute ||
         schedule.overlap || !schedule.shards.empty() || !schedule.pins.empty();
}

int most_micro_batches(const std::vector<Setting>& settings) {
  int most = 1;
  for (const Setting& setting : settings) {
    most = std::max(most, setting.micro_batches);
  }
  return most;
}

// What was found of a batch that does not fit.
struct Refusal {
  double over = 0;  // share of the limits that its leanest program needs
  int64_t batch = 0;
  int micro_batches = 1;  // the most that it has
};

// What a program holds falls no faster than its batch, or, under 1F1B, than its micro-batches. A quarter is for what is
// leaner than the programs that were made.
bool may_fit(const Refusal& known, int64_t batch, int micro_batches) {
  const double rows = static_cast<double>(batch) / static_cast<double>(known.batch);
  return known.over * rows * std::min(1.0, static_cast<double>(known.micro_batches) / micro_batches) <= 1.25;
}

class FixSearch {
 public:
  FixSearch(const FitInput& input, const MemoryLimits& limits, const Module& free)
      : input_(input), limits_(limits), free_(free), base_(input.search) {}

  // Where something fits, as a plan of the changed text would choose.
  Result<Choice> choose_among(const Module& module, const std::vector<Setting>& settings) const {
    XRUN_ASSIGN(LayerHints hints, layer_hints(module, base_.chain));
    const SearchInput changed{module, base_.chain, base_.cost, base_.machine, std::move(hints), base_.deterministic};
    FitInput input{changed, input_.inference, input_.inference_facts, input_.inference_chain, input_.inference_cost};
    input.realised = input_.realised;
    XRUN_ASSIGN(const std::vector<Candidate> candidates, search(changed, settings));
    XRUN_ASSIGN(Choice choice, choose(input, candidates, limits_, kOneProgram));
    return choice.fitted.empty() ? Result<Choice>(std::move(choice)) : choose(input, candidates, limits_, Effort{});
  }

  Result<std::vector<Setting>> settings_of(const Module& module) const {
    return legal_settings(module, base_.chain, base_.machine, base_.deterministic);
  }

  Refusal refusal_of(const Choice& choice, int64_t batch, int micro_batches) const {
    return {limits_.share(choice.smallest), batch, micro_batches};
  }

  // The largest half, quarter, ... that fits: whole row blocks in each of the batches that an update accumulates.
  std::string smaller_batch(Refusal known) const {
    const TrainSpec& train = free_.train;
    const int64_t unit = train.norm_rows * train.grad_accumulation;
    for (int64_t batch = train.batch; batch > unit;) {
      batch = std::max(unit, batch / 2 / unit * unit);
      Module smaller = free_;
      smaller.train.batch = batch;
      const auto settings = settings_of(smaller);
      if (!settings.ok() || !may_fit(known, batch, most_micro_batches(*settings))) {
        continue;
      }
      const auto choice = choose_among(smaller, *settings);
      if (!choice.ok() || choice->weights_alone) {
        continue;
      }
      if (!choice->fitted.empty()) {
        // The text gives the batch of which `grad_accumulation` make an update.
        return line_of("batch = " + std::to_string(batch / train.grad_accumulation), choice->fitted[0],
                       "   changes training");
      }
      known = refusal_of(*choice, batch, most_micro_batches(*settings));
    }
    return "";
  }

 private:
  const FitInput& input_;
  const MemoryLimits& limits_;
  const Module& free_;
  const SearchInput& base_;
};

}  // namespace

std::vector<std::string> find_fixes(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                    const Choice& refused) {
  std::vector<std::string> fixes;
  Module free = training;
  free.schedule = {};
  free.schedule.memory_limit = training.schedule.memory_limit;
  const FixSearch fix_search(input, limits, free);
  const auto settings = fix_search.settings_of(free);
  if (!settings.ok()) {
    return fixes;
  }
  const int micro_batches = most_micro_batches(*settings);
  Refusal known{0, training.train.batch, micro_batches};
  bool weights_alone = refused.weights_alone;
  if (!has_hints(training.schedule)) {
    known = fix_search.refusal_of(refused, training.train.batch, micro_batches);
  } else if (const auto open = fix_search.choose_among(free, *settings); open.ok()) {
    weights_alone = open->weights_alone;
    if (open->fitted.empty()) {
      known = fix_search.refusal_of(*open, training.train.batch, micro_batches);
    } else {
      fixes.push_back(line_of("without hints: " + to_text(open->fitted[0].candidate.setting), open->fitted[0], ""));
    }
  }
  if (const std::string line = weights_alone ? "" : fix_search.smaller_batch(known); !line.empty()) {
    fixes.push_back(line);
  }
  return fixes;
}

}  // namespace xrun::planner
