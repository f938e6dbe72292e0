// Converts reasons and compared programs to FlatBuffers and back.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plan_generated.h"
#include "planner/codec/plan_codec.h"
#include "planner/program/plan.h"

namespace xrun::planner {

flatbuffers::Offset<fb::Reason> encode_reason(flatbuffers::FlatBufferBuilder& builder, const Reason& reason,
                                              const PlanTexts& texts);
flatbuffers::Offset<fb::Alternative> encode_alternative(flatbuffers::FlatBufferBuilder& builder,
                                                        const Alternative& other, const PlanTexts& texts);

flatbuffers::Offset<fb::Certificate> encode_certificate(flatbuffers::FlatBufferBuilder& builder,
                                                        const Certificate& certificate);

// Reads a string of a file; the caller counts its bytes.
using ReadText = std::function<std::string(const flatbuffers::String*)>;

// Return nullopt if values are not legal, such as an unknown number for a cause. If a file has only texts, the results
// contain these texts.
std::optional<Reason> decode_reason(const fb::Reason& in, const ReadText& text);
std::optional<Alternative> decode_alternative(const fb::Alternative& in, const ReadText& text);

// Reads a list of a file; the caller counts its bytes.
using ReadNumbers = std::function<std::vector<int>(const flatbuffers::Vector<int32_t>*)>;
// Decodes a certificate, which files of earlier versions lack. Returns false if its values are not legal.
bool decode_certificate(const fb::Certificate* in, const ReadNumbers& numbers, std::optional<Certificate>& to);

}  // namespace xrun::planner
