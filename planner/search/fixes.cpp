// Steps: try the text without its hints; then smaller batches, by halving; then smaller row blocks; then other choices
// for a large head. If the weights alone exceed the limits, smaller batches and row blocks cannot help and are not
// tried. The memory of the last plan that did not fit shows which smaller batches may fit, so no program is made for
// the others. The fixes are sorted by the predicted number of images per second.
// Tests: tests/planner/search/choose_test.cpp
#include "planner/search/fixes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "planner/search/head_choices.h"
#include "planner/search/heads.h"
#include "planner/search/layer_hints.h"

namespace xrun::planner {
namespace {

// The effort for a changed text: one program is sufficient to show whether anything fits.
constexpr Effort kOneProgram{.wanted = 1, .of_kind = 1, .refused = 1};

// A change with which a plan fits.
struct FixLine {
  std::string change;
  Bytes memory = 0;
  double images_per_second = 0;
  const char* note = "";
};

// Returns a line of text for each fix, in columns.
std::vector<std::string> texts_of(const std::vector<FixLine>& fixes) {
  size_t width = 44;
  for (const FixLine& fix : fixes) {
    width = std::max(width, fix.change.size());
  }
  std::vector<std::string> texts;
  for (const FixLine& fix : fixes) {
    char figures[96];
    std::snprintf(figures, sizeof figures, " %10s  %8s samples/s%s", format_bytes(fix.memory).c_str(),
                  format_count(std::llround(fix.images_per_second)).c_str(), fix.note);
    texts.push_back(fix.change + std::string(width - fix.change.size(), ' ') + figures);
  }
  return texts;
}

// Returns the line of a model text that gives an update `batch` samples.
std::string batch_text(const TrainSpec& train, int64_t batch) {
  const std::string first = std::to_string(batch / train.accumulated());
  return train.growth ? "batch = grow(" + first + " .. " + std::to_string(batch) + ", ...)" : "batch = " + first;
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

// A batch that does not fit.
struct Refusal {
  double over = 0;  // memory of the program that needs the least, as a fraction of the limits
  int64_t batch = 0;
  int micro_batches = 1;  // largest number of micro-batches with this batch
};

// Whether a plan with a smaller batch may fit, given a batch that does not. The memory of a program falls at most in
// proportion to the batch or, under 1F1B, to the size of a micro-batch. There may be plans that need less memory than
// the programs that were made, so an excess of a quarter is allowed.
bool may_fit(const Refusal& known, int64_t batch, int micro_batches) {
  const double rows = static_cast<double>(batch) / static_cast<double>(known.batch);
  return known.over * rows * std::min(1.0, static_cast<double>(known.micro_batches) / micro_batches) <= 1.25;
}

class FixSearch {
 public:
  FixSearch(const FitInput& input, const MemoryLimits& limits, const Module& free, Exceeded exceeded)
      : input_(input), limits_(limits), free_(free), base_(input.search), exceeded_(exceeded) {}

  FixLine line_of(std::string change, const Fitted& fitted, const char* note) const {
    return {std::move(change), memory_for(exceeded_, fitted), fitted.predicted.images_per_second, note};
  }

  // Returns the choice for a changed module among the given settings; it has a plan if one fits.
  Result<Choice> choose_among(const Module& module, const std::vector<Setting>& settings) const {
    XRUN_ASSIGN(LayerHints hints, layer_hints(module, base_.chain));
    const SearchInput changed{module, base_.chain, base_.cost, base_.machine, std::move(hints), base_.deterministic};
    FitInput input{changed, input_.inference, input_.inference_facts, input_.inference_chain, input_.inference_cost};
    input.realised = input_.realised;
    XRUN_ASSIGN(const std::vector<Candidate> candidates, search(changed, settings));
    XRUN_ASSIGN(Choice choice, choose(input, candidates, limits_, kOneProgram));
    return choice.fitted.empty() ? Result<Choice>(std::move(choice)) : choose(input, candidates, limits_, Effort{});
  }

  // Returns the fix with the largest row block below the text's with which a plan fits. If no plan with the whole batch
  // fits and `smaller_too` is set, smaller batches are also tried.
  std::optional<FixLine> smaller_rows(const FactsOf& facts_of, bool smaller_too) const {
    const TrainSpec& train = base_.module.train;
    const bool coupled = has_coupled_rows(base_.module.graph);
    const std::vector<int64_t> blocks = smaller_row_blocks(train, coupled);
    const char* note = coupled ? "   changes training" : "";
    int64_t tried = 2 * train.norm_rows;
    for (const int64_t rows : blocks) {
      if (2 * tried < 3 * rows) {
        continue;  // this row block is almost equal to the previous one
      }
      tried = rows;
      if (const auto fitted = fits(facts_of, rows, train.batch)) {
        return line_of("norm_rows = " + std::to_string(rows), *fitted, note);
      }
    }
    return smaller_too && !blocks.empty() ? smaller_rows_and_batch(facts_of, blocks.back()) : std::nullopt;
  }

  // Fixes with other active classes, or other formats of class rows, of a large head.
  std::vector<FixLine> head_choices() const {
    const Module& module = base_.module;
    const auto heads = plan_heads(module, base_.chain, base_.machine, module.train.batch);
    const auto largest = heads.ok() ? largest_head(*heads) : std::nullopt;
    std::vector<FixLine> lines;
    if (!largest || (*heads)[*largest].classes < kLargeHead) {
      return lines;
    }
    const HeadPlan& head = (*heads)[*largest];
    const auto index = static_cast<size_t>(head.head);
    const HeadChoice now = choice_of(module, head);
    const int states = training_heads(module).states;
    for (const HeadChoice& choice : single_changes(module, head)) {
      const std::string text = setting_text(choice, now, module.graph.heads[index].name, states);
      const auto made = choose_changed(input_, with_choice(module, index, choice),
                                       with_choice(input_.inference, index, choice), limits_, kOneProgram);
      if (!text.empty() && made.ok() && !made->fitted.empty()) {
        lines.push_back(line_of(text, made->fitted[0], "   changes training"));
      }
    }
    if (const auto fitted = rows_in_a_file(head)) {
      const std::string& name = module.graph.heads[index].name;
      lines.push_back(line_of("groups { " + name + " { rows = mapped } }", *fitted, "   on the disk"));
    }
    return lines;
  }

  Result<std::vector<Setting>> settings_of(const Module& module) const {
    return legal_settings(module, base_.chain, base_.machine, base_.deterministic);
  }

  Refusal refusal_of(const Choice& choice, int64_t batch, int micro_batches) const {
    return {limits_.share(choice.smallest), batch, micro_batches};
  }

  // Returns the fix with the largest half, quarter, ... of the batch that fits. Each of the batches that an update
  // accumulates still has whole row blocks.
  std::optional<FixLine> smaller_batch(Refusal known) const {
    const TrainSpec& train = free_.train;
    const int64_t unit = train.norm_rows * train.accumulated();
    for (int64_t batch = train.batch; batch > unit;) {
      batch = std::max(unit, batch / 2 / unit * unit);
      Module smaller = free_;
      smaller.train.resize(batch);
      const auto settings = settings_of(smaller);
      if (!settings.ok() || !may_fit(known, batch, most_micro_batches(*settings))) {
        continue;
      }
      const auto choice = choose_among(smaller, *settings);
      if (!choice.ok() || choice->weights_alone) {
        continue;
      }
      if (!choice->fitted.empty()) {
        return line_of(batch_text(train, batch), choice->fitted[0], "   changes training");
      }
      known = refusal_of(*choice, batch, most_micro_batches(*settings));
    }
    return std::nullopt;
  }

 private:
  // Returns a plan in which the class rows of a head are in a file; nullopt if that is not possible or does not fit.
  std::optional<Fitted> rows_in_a_file(const HeadPlan& head) const {
    if (head.mapped || head.active == 0 || head.classes < kLeastMappedClasses || head.untouched != Untouched::kAsIs) {
      return std::nullopt;
    }
    Module training = base_.module;
    Module inference = input_.inference;
    for (Module* module : {&training, &inference}) {
      GroupSpec group;
      group.path = base_.module.graph.param(head.weight).name;
      group.rows = RowPlace::kMapped;
      module->train.groups.push_back(std::move(group));
    }
    const auto made = choose_changed(input_, training, inference, limits_, kOneProgram);
    return made.ok() && !made->fitted.empty() ? std::optional(made->fitted[0]) : std::nullopt;
  }

  std::optional<Fitted> fits(const FactsOf& facts_of, int64_t rows, int64_t batch) const {
    const auto other = OtherRows::make(input_, facts_of, rows);
    auto choice = other.ok() ? (*other)->choose_plan(batch, limits_, kOneProgram) : Result<Choice>(other.error());
    if (!choice.ok() || choice->fitted.empty()) {
      return std::nullopt;
    }
    return std::move(choice->fitted[0]);
  }

  std::optional<FixLine> smaller_rows_and_batch(const FactsOf& facts_of, int64_t rows) const {
    const TrainSpec& train = base_.module.train;
    const int64_t unit = rows * train.accumulated();
    for (int64_t batch = train.batch; batch > unit;) {
      batch = std::max(unit, batch / 2 / unit * unit);
      if (const auto fitted = fits(facts_of, rows, batch)) {
        return line_of(batch_text(train, batch) + ", norm_rows = " + std::to_string(rows), *fitted,
                       "   changes training");
      }
    }
    return std::nullopt;
  }

  const FitInput& input_;
  const MemoryLimits& limits_;
  const Module& free_;
  const SearchInput& base_;
  Exceeded exceeded_;
};

}  // namespace

Exceeded exceeded_by(const Fitted& fitted, const MemoryLimits& limits) {
  const bool of_node = limits.node > 0 && fitted.largest_node() > limits.node;
  // All memory together is exceeded only if that of a GPU or of a host is.
  const bool of_run = fitted.memory.on_gpus == 0 && fitted.memory.sum() > limits.total;
  const bool of_gpu = fitted.memory.on_gpus > 0 && fitted.largest_device > limits.device;
  return of_run ? Exceeded::kRun : of_node && !of_gpu ? Exceeded::kNode : Exceeded::kDevice;
}

Bytes memory_for(Exceeded limit, const Fitted& fitted) {
  switch (limit) {
    case Exceeded::kRun:
      return fitted.memory.sum();
    case Exceeded::kNode:
      return fitted.largest_node();
    case Exceeded::kDevice:
      return fitted.largest_device;
  }
  return 0;
}

std::vector<std::string> find_fixes(const Module& training, const FitInput& input, const MemoryLimits& limits,
                                    const Choice& refused, const FactsOf& facts_of) {
  std::vector<FixLine> fixes;
  Module free = training;
  free.schedule = {};
  free.schedule.memory_limit = training.schedule.memory_limit;
  const FixSearch fix_search(input, limits, free, exceeded_by(refused.smallest, limits));
  const auto settings = fix_search.settings_of(free);
  if (!settings.ok()) {
    return {};
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
      const Fitted& fitted = open->fitted[0];
      fixes.push_back(fix_search.line_of("without hints: " + to_text(fitted.candidate.setting), fitted, ""));
    }
  }
  const auto batch = weights_alone ? std::nullopt : fix_search.smaller_batch(known);
  const auto rows = weights_alone || !facts_of ? std::nullopt : fix_search.smaller_rows(facts_of, !batch.has_value());
  std::ranges::move(fix_search.head_choices(), std::back_inserter(fixes));
  for (const auto& line : {rows, batch}) {
    if (line) {
      fixes.push_back(*line);
    }
  }
  std::ranges::stable_sort(fixes, std::greater<>(), &FixLine::images_per_second);
  return texts_of(fixes);
}

}  // namespace xrun::planner
