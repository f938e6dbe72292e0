// Reports plans as JSON documents for programs (docs/reference/command/plan.md, "Planning"). Minor versions only add
// keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// The version in the key `v` of every document of a plan. Version 1 had the key `format_version`, a string, in its
// place.
inline constexpr int kReportVersion = 2;

// The document as text, indented, ending in a newline; bytes that are not UTF-8 are replaced.
std::string document_text(const nlohmann::ordered_json& document);
nlohmann::ordered_json json_of(const Reason& reason);
nlohmann::ordered_json json_of(const Alternative& alternative);
nlohmann::ordered_json json_of(const HeadCost& cost);

// The document {v, plan, model, digests, cluster, settings, data, parts, stages, shards, ops, memory, run_memory, comm,
// predicted, certificate, why, alternatives, other_kinds, graphs of a run that builds some, and head_choices of a large
// head}; as text it is indented and ends in a newline. Bytes and seconds are plain numbers.
nlohmann::ordered_json report_document(const Plan& plan, const Module& module);
std::string report_json(const Plan& plan, const Module& module);

// The tables of report_table (planner/report/text.h) as {v, plan, <table>: [...]}; memory and why as in report_json.
std::string table_json(const Plan& plan, const Module& module, const std::string& table, int depth = 0);

}  // namespace xrun::planner
