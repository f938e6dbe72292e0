// Tests: tests/planner/report/text_test.cpp, tests/planner/plan_file_test.cpp
#include "planner/report/reason_text.h"

#include <cmath>
#include <cstdio>

#include "graph/base/counted.h"
#include "planner/search/head_choices.h"
#include "planner/search/space.h"

namespace xrun::planner {
namespace {

using Key = Reason::Key;
using Cause = Reason::Cause;
using Verdict = Rival::Verdict;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

std::string slower(const Rival& rival) {
  return rival.verdict == Verdict::kSlower ? percent(rival.ratio) + " slower" : "no faster";
}

// Returns the comparison as text: "1 is 16 % slower", "2 stages do not fit". `one` states whether `who` is singular.
std::string compare(const std::string& who, bool one, const Rival& rival) {
  switch (rival.verdict) {
    case Verdict::kDoesNotFit:
      return who + (one ? " does not fit" : " do not fit");
    case Verdict::kNotCompared:
      return who + (one ? " was not compared" : " were not compared");
    default:
      return who + (one ? " is " : " are ") + slower(rival);
  }
}

std::string compare_stages(int64_t stages, const Rival& rival) {
  if (stages > 1) {
    return compare(counted(rival.stages, "stage"), rival.stages == 1, rival);
  }
  const bool has_time = rival.verdict != Verdict::kDoesNotFit && rival.verdict != Verdict::kNotCompared;
  return !has_time || rival.idle < 5e-4 ? compare("two stages", false, rival)
                                        : "two stages would idle " + percent(rival.idle) + ": " + slower(rival);
}

std::string granularity_text(bool one_head_pass) { return one_head_pass ? "step" : "micro_batch"; }

std::string rival_text(const Reason& reason) {
  const Rival& rival = reason.rival.value();
  if (reason.key == Key::kStages) {
    return compare_stages(reason.value, rival);
  }
  if (reason.key == Key::kPipeline) {
    return compare(to_text(rival.pipeline), true, rival);
  }
  if (reason.key == Key::kGranularity) {
    return compare(granularity_text(reason.value == 0), true, rival);
  }
  const int number = reason.key == Key::kReplicas ? rival.replicas : rival.micro_batches;
  return compare(std::to_string(number), number == 1, rival);
}

// Returns the classes whose logits are kept for the backward pass.
std::string kept_text(const HeadState& head) {
  const std::string all = head.is_subset ? "the active" : "all";
  const std::string of = head.kept == head.active ? all
                         : head.is_subset ? format_count(head.kept) + " of the " + format_count(head.active) + " active"
                                          : format_count(head.kept) + " of " + format_count(head.active);
  return of + " classes";
}

// Returns a text about the number of a head's logits that exist at one time.
std::string kept_logits_text(const HeadState& head) {
  return head.kept == 0
             ? "logits " + format_bytes(head.logits) + ", computed again"
             : "logits of " + kept_text(head) + " " + format_bytes(head.logits) + ", kept for the backward pass";
}

std::string state_text(const HeadState& head) {
  const std::string formats = formats_text(head.weights, head.states);
  return "weights and states " + format_bytes(head.bytes) + (head.mapped ? " in a file" : "") +
         (formats.empty() ? "" : " (rows " + formats + ")") + "; " + kept_logits_text(head);
}

std::string block_text(const SmallerBlock& block) {
  const std::string all = block.devices == 2 ? "both devices" : "all " + format_count(block.devices) + " devices";
  const std::string use = !block.idle ? "be "
                          : block.used == block.devices
                              ? "use " + all + ", "
                              : "use " + format_count(block.used) + " of " + format_count(block.devices) + " devices, ";
  return format_count(block.batch) + " rows are " +
         (block.blocks == 1 ? "one block" : format_count(block.blocks) + " blocks") +
         ": `norm_rows=" + std::to_string(block.norm_rows) + "` would " + use + percent(block.faster) + " faster" +
         (block.coupled ? ", with statistics of fewer rows" : "");
}

std::string cause_text(const Reason& reason) {
  switch (reason.cause) {
    case Cause::kNothingElse:
      return "";
    case Cause::kAskedFor:
      return "asked for";
    case Cause::kOneDevice:
      return "there is one device";
    case Cause::kRival:
      return rival_text(reason);
    case Cause::kReplicasOnAll:
      return counted(reason.count, "replica") + " use all devices";
    case Cause::kStagesOnAll:
      return "stages use all devices";
    case Cause::kPins:
      return "the pins leave no other cuts";
    case Cause::kNoOtherCuts:
      return "the layers cannot be cut otherwise";
    case Cause::kMicroBatches:
      return "no other number divides the " + counted(reason.count, "micro-batch") + " asked for";
    case Cause::kPartials:
      return "no other number divides the " + counted(reason.count, "partial") + " of gradients (deterministic)";
    case Cause::kRowBlocks:
      return "no other number divides row blocks and devices";
    case Cause::kHeadState:
      return state_text(reason.head_state.value());
    case Cause::kActivationsFit:
      return "activations fit" + (reason.count > 0
                                      ? "; " + counted(reason.count, "faster setting") +
                                            (reason.count == 1 ? " needs" : " need") + " too much memory (estimated)"
                                      : "");
    case Cause::kCheapestThatFits:
      return "the cheapest that fits, by estimated memory";
    case Cause::kFits:
      return "fits; a plan that runs fewer layers again may fit too";
  }
  return "";
}

}  // namespace

std::string key_text(const Reason& reason) {
  switch (reason.key) {
    case Key::kStored:
      return reason.stored.key;
    case Key::kStages:
      return "stages";
    case Key::kReplicas:
      return "replicas";
    case Key::kMicroBatches:
      return "micro_batches";
    case Key::kShards:
      return "shards " + reason.head;
    case Key::kRecompute:
      return "recompute";
    case Key::kPipeline:
      return "pipeline";
    case Key::kGranularity:
      return "granularity " + reason.head;
  }
  return "";
}

std::string value_text(const Reason& reason) {
  if (reason.key == Key::kStored) {
    return reason.stored.value;
  }
  if (reason.key == Key::kRecompute) {
    return reason.value == 0 ? "none" : format_count(reason.value) + " of " + format_count(reason.of) + " layers";
  }
  if (reason.key == Key::kPipeline) {
    const auto kind = static_cast<PipelineKind>(reason.value);
    const bool has_chunks = kind == PipelineKind::kInterleaved;
    return reason.of == 0 ? std::string(word_of(kind))  // an earlier version leaves the argument out
                          : to_text(PipelineHint{kind, has_chunks ? 0 : reason.of, has_chunks ? reason.of : 2});
  }
  if (reason.key == Key::kGranularity) {
    return granularity_text(reason.value == 1);
  }
  return std::to_string(reason.value);
}

std::string choice_text(const Reason& reason) {
  const std::string value = value_text(reason);
  return key_text(reason) + (value.empty() ? "" : " = " + value);
}

std::string reason_text(const Reason& reason) {
  if (reason.key == Key::kStored) {
    return reason.stored.text;
  }
  std::string text = cause_text(reason);
  if (reason.key == Key::kMicroBatches) {
    const std::string rows = format_count(reason.rows) + (reason.rows == 1 ? " row each" : " rows each");
    const char* joint = text.empty() ? "" : reason.cause == Cause::kRival ? "; " : ", ";
    text = rows + joint + text;
  }
  return text + (reason.smaller_block ? "; " + block_text(*reason.smaller_block) : "");
}

std::string settings_text(const Alternative& other) {
  if (other.stored) {
    return other.stored->settings;
  }
  const Setting setting{.stages = other.stages,
                        .replicas = other.replicas,
                        .micro_batches = other.micro_batches,
                        .pipeline = other.pipeline.kind,
                        .head_devices = other.head_devices,
                        .chunks = other.pipeline.stages_of_device(),
                        .warm_up = static_cast<int>(other.pipeline.warm_up)};
  const bool fills = other.stages > 1 && other.pipeline.kind == PipelineKind::kGpipe;  // `to_text` omits the default
  return to_text(setting) + (fills ? ", pipeline = gpipe" : "") +
         (other.head.empty()
              ? ""
              : ", shard " + other.head + " { granularity = " + granularity_text(other.one_head_pass) + " }") +
         (other.recomputed > 0
              ? ", recompute " + format_count(other.recomputed) + (other.recomputed == 1 ? " layer" : " layers")
              : "");
}

std::string note_text(const Alternative& other) {
  if (other.stored) {
    return other.stored->note;
  }
  const double ratio = std::abs(other.ratio);
  return (ratio < 1e-3 ? "as fast" : percent(ratio) + (other.ratio > 0 ? " slower" : " faster")) +
         (other.idle > 0.005 ? ", idles " + percent(other.idle) : "") + (other.is_estimate ? ", estimated" : "");
}

std::string head_choice_text(const HeadCost& cost) {
  return active_text(cost.choice.active) + ", " + rows_text(cost.choice, cost.states);
}

std::string logits_text(const HeadState& head) {
  return head.kept == 0 ? "none are kept" : "of " + kept_text(head) + ", " + format_bytes(head.logits);
}

std::string formats_text(RowFormat weights, std::optional<RowFormat> states) {
  if (weights == RowFormat::kF32 && states.value_or(RowFormat::kF32) == RowFormat::kF32) {
    return "";
  }
  return "in " + std::string(name_of(weights)) + (states ? ", states in " + std::string(name_of(*states)) : "");
}

}  // namespace xrun::planner
