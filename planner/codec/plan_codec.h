// Converts a plan to FlatBuffers and back, without the digest at the end of a plan file. Only plan_encode.cpp,
// plan_decode.cpp and reason_codec.h include the generated FlatBuffers types.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The functions that make the texts of reasons and of compared programs (planner/report/reason_text.h). A file has
// these texts in addition to the values, for older versions of xrun.
struct PlanTexts {
  std::string (*choice)(const Reason&);
  std::string (*reason)(const Reason&);
  std::string (*settings)(const Alternative&);
  std::string (*note)(const Alternative&);
};

// Encodes a plan, with Plan::kept if it is set.
std::vector<std::byte> encode_plan(const Plan& plan, uint32_t schema, const PlanTexts& texts);

struct DecodedPlan {
  uint32_t schema = 0;
  std::string xrun_version;
  Plan plan;  // empty if the schema is not `wanted`
};

// Decodes a plan of schema `wanted`; of other schemas it reads only the schema and the version. Allocates at most a
// small multiple of the size of `bytes`, whatever they contain. REQUIRES: `bytes` begin at a multiple of 16.
//   ops  the operators of this program, for Plan::kept; null: Plan::kept is not read
// Errors: kContent XG0621; XG0624 for a plan with operators that are not among `ops`.
Result<DecodedPlan> decode_plan(std::span<const std::byte> bytes, uint32_t wanted, const std::string& name,
                                const OpRegistry* ops = nullptr);

}  // namespace xrun::planner
