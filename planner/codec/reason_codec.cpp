// Tests: tests/planner/plan_file_test.cpp
#include "planner/codec/reason_codec.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

namespace xrun::planner {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using Key = Reason::Key;
using Cause = Reason::Cause;

constexpr std::string_view kEquals = " = ";  // between the key and the value of a choice

Offset<fb::Rival> encode(FlatBufferBuilder& builder, const Rival& rival) {
  return fb::CreateRival(builder, rival.stages, rival.replicas, rival.micro_batches,
                         static_cast<uint8_t>(rival.verdict), rival.is_estimate, rival.step, rival.memory, rival.ratio,
                         rival.idle, true, static_cast<uint8_t>(rival.pipeline.kind),
                         static_cast<int32_t>(rival.pipeline.chunks), static_cast<int32_t>(rival.pipeline.warm_up));
}

Offset<fb::HeadState> encode(FlatBufferBuilder& builder, const HeadState& head) {
  const auto states =
      head.states ? flatbuffers::Optional<uint8_t>(static_cast<uint8_t>(*head.states)) : flatbuffers::nullopt;
  return fb::CreateHeadState(builder, head.bytes, head.mapped, static_cast<uint8_t>(head.weights), states, head.active,
                             head.is_subset, head.kept, head.logits);
}

Offset<fb::SmallerBlock> encode(FlatBufferBuilder& builder, const SmallerBlock& block) {
  return fb::CreateSmallerBlock(builder, block.batch, block.blocks, block.norm_rows, block.devices, block.used,
                                block.idle, block.faster, block.coupled);
}

template <typename Enum>
bool is_one_of(uint8_t number, Enum last) {
  return number <= static_cast<uint8_t>(last);
}

// Counts and bytes of a plan are never negative.
bool are_natural(std::initializer_list<int64_t> numbers) {
  return std::ranges::all_of(numbers, [](int64_t number) { return number >= 0; });
}

std::optional<Rival> decode(const fb::Rival& in) {
  if (!is_one_of(in.verdict(), Rival::Verdict::kNotCompared) || !is_one_of(in.pipeline(), PipelineKind::kZeroBubble) ||
      !are_natural({in.stages(), in.replicas(), in.micro_batches(), in.memory(), in.chunks(), in.warm_up()})) {
    return std::nullopt;
  }
  return Rival{.stages = in.stages(),
               .replicas = in.replicas(),
               .micro_batches = in.micro_batches(),
               .pipeline = {static_cast<PipelineKind>(in.pipeline()), in.warm_up(), in.chunks()},
               .verdict = static_cast<Rival::Verdict>(in.verdict()),
               .is_estimate = in.is_estimate(),
               .step = in.step(),
               .memory = in.memory(),
               .ratio = in.ratio(),
               .idle = in.idle()};
}

std::optional<HeadState> decode(const fb::HeadState& in) {
  const auto states = in.states();
  if (!is_one_of(in.weights(), RowFormat::kFp8) || !is_one_of(states.value_or(0), RowFormat::kFp8) ||
      !are_natural({in.bytes(), in.active(), in.kept(), in.logits()})) {
    return std::nullopt;
  }
  return HeadState{.bytes = in.bytes(),
                   .mapped = in.mapped(),
                   .weights = static_cast<RowFormat>(in.weights()),
                   .states = states ? std::optional(static_cast<RowFormat>(*states)) : std::nullopt,
                   .active = in.active(),
                   .is_subset = in.is_subset(),
                   .kept = in.kept(),
                   .logits = in.logits()};
}

std::optional<SmallerBlock> decode(const fb::SmallerBlock& in) {
  if (!are_natural({in.batch(), in.blocks(), in.norm_rows(), in.devices(), in.used()})) {
    return std::nullopt;
  }
  return SmallerBlock{.batch = in.batch(),
                      .blocks = in.blocks(),
                      .norm_rows = in.norm_rows(),
                      .devices = in.devices(),
                      .used = in.used(),
                      .idle = in.idle(),
                      .faster = in.faster(),
                      .coupled = in.coupled()};
}

// Decodes an optional table into `to`. Returns false if its values are not legal.
template <typename Table, typename Value>
bool decode_into(const Table* in, std::optional<Value>& to) {
  to = in != nullptr ? decode(*in) : std::nullopt;
  return in == nullptr || to.has_value();
}

// Returns the texts of a reason without values. Its choice is stored as "KEY = VALUE".
StoredReason stored_reason(const fb::Reason& in, const ReadText& text) {
  std::string choice = text(in.choice());
  const size_t equals = choice.find(kEquals);
  const std::string value = equals == std::string::npos ? "" : choice.substr(equals + kEquals.size());
  return {choice.substr(0, equals), value, text(in.text())};
}

}  // namespace

Offset<fb::Reason> encode_reason(FlatBufferBuilder& builder, const Reason& reason, const PlanTexts& texts) {
  const auto choice = builder.CreateString(texts.choice(reason));
  const auto text = builder.CreateString(texts.reason(reason));
  const auto head = reason.head.empty() ? Offset<flatbuffers::String>() : builder.CreateString(reason.head);
  const auto rival = reason.rival ? encode(builder, *reason.rival) : Offset<fb::Rival>();
  const auto head_state = reason.head_state ? encode(builder, *reason.head_state) : Offset<fb::HeadState>();
  const auto block = reason.smaller_block ? encode(builder, *reason.smaller_block) : Offset<fb::SmallerBlock>();
  return fb::CreateReason(builder, choice, text, static_cast<uint8_t>(reason.key), head, reason.value, reason.of,
                          reason.rows, static_cast<uint8_t>(reason.cause), reason.count, rival, head_state, block);
}

std::optional<Reason> decode_reason(const fb::Reason& in, const ReadText& text) {
  if (!is_one_of(in.key(), Key::kGranularity) || !is_one_of(in.cause(), Cause::kFits) ||
      !are_natural({in.value(), in.of(), in.rows(), in.count()})) {
    return std::nullopt;
  }
  Reason reason{.key = static_cast<Key>(in.key())};
  if (reason.key == Key::kStored) {
    reason.stored = stored_reason(in, text);
    return reason;
  }
  reason.head = text(in.head());
  reason.value = in.value();
  reason.of = in.of();
  reason.rows = in.rows();
  reason.cause = static_cast<Cause>(in.cause());
  reason.count = in.count();
  if (!decode_into(in.rival(), reason.rival) || !decode_into(in.head_state(), reason.head_state) ||
      !decode_into(in.smaller_block(), reason.smaller_block) ||
      reason.rival.has_value() != (reason.cause == Cause::kRival) ||
      reason.head_state.has_value() != (reason.cause == Cause::kHeadState) ||
      (reason.key == Key::kPipeline && !is_one_of(static_cast<uint8_t>(in.value()), PipelineKind::kZeroBubble))) {
    return std::nullopt;
  }
  if (reason.rival && !in.rival()->has_pipeline()) {
    // Earlier versions compared only GPipe and 1F1B.
    reason.rival->pipeline.kind = reason.value == 0 ? PipelineKind::kOneFOneB : PipelineKind::kGpipe;
  }
  return reason;
}

Offset<fb::Alternative> encode_alternative(FlatBufferBuilder& builder, const Alternative& other,
                                           const PlanTexts& texts) {
  const auto settings = builder.CreateString(texts.settings(other));
  const auto note = builder.CreateString(texts.note(other));
  const auto head = other.head.empty() ? Offset<flatbuffers::String>() : builder.CreateString(other.head);
  return fb::CreateAlternative(builder, settings, other.step, other.memory, note, other.stages, other.replicas,
                               other.micro_batches, other.recomputed, !other.stored,
                               static_cast<uint8_t>(other.pipeline.kind), other.head_devices, other.ratio, other.idle,
                               other.is_estimate, static_cast<int32_t>(other.pipeline.chunks),
                               static_cast<int32_t>(other.pipeline.warm_up), other.one_head_pass, head);
}

std::optional<Alternative> decode_alternative(const fb::Alternative& in, const ReadText& text) {
  if (!is_one_of(in.pipeline(), PipelineKind::kZeroBubble) || in.chunks() < 1 || in.warm_up() < 0) {
    return std::nullopt;
  }
  Alternative other{.stages = in.stages(),
                    .replicas = in.replicas(),
                    .micro_batches = in.micro_batches(),
                    .pipeline = {static_cast<PipelineKind>(in.pipeline()), in.warm_up(), in.chunks()},
                    .head_devices = in.head_devices(),
                    .one_head_pass = in.one_head_pass(),
                    .head = text(in.head()),
                    .recomputed = in.recomputed(),
                    .step = in.step(),
                    .memory = in.memory(),
                    .ratio = in.ratio(),
                    .idle = in.idle(),
                    .is_estimate = in.is_estimate()};
  if (!in.has_values()) {
    other.stored = StoredAlternative{text(in.text()), text(in.note())};
  }
  return other;
}

Offset<fb::Certificate> encode_certificate(FlatBufferBuilder& builder, const Certificate& certificate) {
  const auto stages = builder.CreateVector(certificate.stages);
  const auto replicas = builder.CreateVector(certificate.replicas);
  const auto micro_batches = builder.CreateVector(certificate.micro_batches);
  return fb::CreateCertificate(builder, certificate.bound, stages, replicas, micro_batches, certificate.pipelines[0],
                               certificate.pipelines[1], static_cast<uint8_t>(certificate.limit), certificate.stage,
                               certificate.count, certificate.busy, certificate.complete, certificate.compared,
                               certificate.pipelines[2], certificate.pipelines[3], certificate.pipelines[4]);
}

bool decode_certificate(const fb::Certificate* in, const ReadNumbers& numbers, std::optional<Certificate>& to) {
  if (in == nullptr) {
    return true;
  }
  if (!is_one_of(in->limit(), Certificate::Limit::kLoader) ||
      !are_natural({in->stage(), in->count(), in->compared()}) || !std::isfinite(in->bound()) ||
      !std::isfinite(in->busy())) {
    return false;
  }
  to = Certificate{.bound = in->bound(),
                   .stages = numbers(in->stages()),
                   .replicas = numbers(in->replicas()),
                   .micro_batches = numbers(in->micro_batches()),
                   .pipelines = {in->gpipe(), in->one_f_one_b(), in->interleaved(), in->zb_v(), in->zero_bubble()},
                   .limit = static_cast<Certificate::Limit>(in->limit()),
                   .stage = in->stage(),
                   .count = in->count(),
                   .busy = in->busy(),
                   .complete = in->complete(),
                   .compared = in->compared()};
  return true;
}

}  // namespace xrun::planner
