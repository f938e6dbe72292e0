// Texts of the reasons of a plan and of other choices that were compared with it.
#pragma once

#include <optional>
#include <string>

#include "planner/program/plan.h"

namespace xrun::planner {

// Return the decision of a reason: its key ("stages", "shards id"), the chosen value ("1", "3 of 10 layers"), and both
// ("stages = 1").
std::string key_text(const Reason& reason);
std::string value_text(const Reason& reason);
std::string choice_text(const Reason& reason);

// Returns the reason for the choice: "two stages would idle 0.4 %: 0.4 % slower".
std::string reason_text(const Reason& reason);

// Return the settings of a compared program, and how it differs from the plan: "stages = 2, micro_batches = 4",
// "0.4 % slower, idles 0.7 %".
std::string settings_text(const Alternative& other);
std::string note_text(const Alternative& other);

// Returns the classes whose logits are kept, and the bytes of these logits: "of all classes, 40.8 MiB".
std::string logits_text(const HeadState& head);

// Returns the active classes and the formats of a choice for a head: "sample 10 %, f32".
std::string head_choice_text(const HeadCost& cost);

// Returns the formats of class rows if they are narrower than they could be, such as "in bf16, states in f32"; else an
// empty text. `states` is nullopt if there are no optimizer states.
std::string formats_text(RowFormat weights, std::optional<RowFormat> states);

}  // namespace xrun::planner
