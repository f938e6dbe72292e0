// Lists the choices for a head, and finds their costs by making a plan for a module that is changed accordingly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/program/head_choice.h"
#include "planner/program/plan.h"
#include "planner/search/choose.h"

namespace xrun::planner {

// Returns the active classes as text: "all", "sample 10 %", "knn 10 %".
std::string active_text(const ActiveSpec& active);
// Returns the formats as text: "bf16", "bf16, states bf16".
std::string rows_text(const HeadChoice& choice, int states);
// Returns the settings of the model text that change `from` into `choice`: "active_classes = sample(10%)",
// "groups.id.weights = bf16".
std::string setting_text(const HeadChoice& choice, const HeadChoice& from, const std::string& head, int states);

// Returns the trained head with the most classes; nullopt if no head is trained.
std::optional<size_t> largest_head(const std::vector<HeadPlan>& heads);
// Returns the choice of the model text for `head`, which plan_heads made from `module`.
HeadChoice choice_of(const Module& module, const HeadPlan& head);
// Returns the choice of the model text, followed by all other combinations of active classes and formats.
std::vector<HeadChoice> head_choices(const Module& module, const HeadPlan& head);
// Returns the choice of the text, followed by the choices that change only the active classes or only the formats.
std::vector<HeadChoice> single_changes(const Module& module, const HeadPlan& head);

// Return the module with another choice, or with another number of classes, for the head at index `head` in
// Graph::heads. The number of classes changes only the types of the class weights and of the logits; data, labels and
// all other layers stay.
Module with_choice(Module module, size_t head, const HeadChoice& choice);
Module with_classes(Module module, size_t head, int64_t classes);

// Returns the cost of each choice of `single_changes` under the settings of `plan`, the text's choice first. `head` is
// a head of `plan`. Errors: those of layer_hints, decide and fit.
Result<std::vector<HeadCost>> head_costs(const FitInput& base, const Plan& plan, const HeadPlan& head);

// Searches plans for changed modules and returns the result of `choose`. The modules must have the chains of `base`.
// Errors: those of layer_hints, legal_settings, search and choose.
Result<Choice> choose_changed(const FitInput& base, const Module& training, const Module& inference,
                              const MemoryLimits& limits, const Effort& effort);

}  // namespace xrun::planner
