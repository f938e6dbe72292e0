// Converts reasons and compared programs to FlatBuffers and back.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plan_generated.h"
#include "planner/program/plan.h"
#include "planner/program/plan_codec.h"

namespace xrun::planner {

flatbuffers::Offset<fb::Reason> encode_reason(flatbuffers::FlatBufferBuilder& builder, const Reason& reason,
                                              const PlanTexts& texts);
flatbuffers::Offset<fb::Alternative> encode_alternative(flatbuffers::FlatBufferBuilder& builder,
                                                        const Alternative& other, const PlanTexts& texts);

// Reads a string of a file; the caller counts its bytes.
using ReadText = std::function<std::string(const flatbuffers::String*)>;

// Return nullopt if values are not legal, such as an unknown number for a cause. If a file has only texts, the results
// contain these texts.
std::optional<Reason> decode_reason(const fb::Reason& in, const ReadText& text);
std::optional<Alternative> decode_alternative(const fb::Alternative& in, const ReadText& text);

}  // namespace xrun::planner
