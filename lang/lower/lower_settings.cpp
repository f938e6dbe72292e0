// Lowers settings by their records: look-up, groups, choices, and settings of a later edition.
// Tests: tests/lang/nothing_ignored_test.cpp, tests/lang/lower/settings_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/lower/foreign_settings.h"
#include "lang/lower/module_builder.h"
#include "lang/text/foreign_names.h"
#include "lang/text/nearest.h"

namespace xrun::lang {

void ModuleBuilder::lower_settings(const SettingNode& parent, DeclKind kind, std::string_view group, Scope& scope) {
  for (const SettingNode& node : parent.children) {
    lower_setting(node, kind, group, scope);
  }
}

void ModuleBuilder::lower_setting(const SettingNode& node, DeclKind kind, std::string_view group, Scope& scope) {
  const SettingDef* def = find_setting(kind, group, node.key);
  for (const SettingDef& named : all_settings()) {
    def = def == nullptr && named.kind == kind && named.group == group && named.is_name() ? &named : def;
  }
  if (def == nullptr) {
    unknown_setting(node, kind, group);
  } else if (def->access.store != nullptr) {
    Scope own = scope_of(node, scope);
    (this->*def->access.store)(node, own, *def);
  }
}

void ModuleBuilder::unknown_setting(const SettingNode& node, DeclKind kind, std::string_view group) {
  const bool placement = group.empty() && (kind == DeclKind::kCluster || kind == DeclKind::kSchedule);
  if (placement && find_setting(DeclKind::kTrain, {}, node.key) != nullptr) {
    Fix fix{"move the line to a `train`"};
    if (choice_.train) {
      const Position at = ev_.sources().position(choice_.train.decl->span.file, choice_.train.decl->keyword.begin);
      fix.title = fmt::format("move the line to `train{}{}` (line {})", choice_.train.decl->name ? " " : "",
                              choice_.train.decl->name.text, at.line);
    }
    ev_.report(fault("XG0503", node.key_span, {"a {} cannot change what is learned", keyword_of(kind)},
                     node.key == "active_classes" ? "changes the loss" : "changes the loss or the update",
                     std::move(fix))
                   .note("`cluster` and `schedule` may change speed and memory only"));
    return;
  }
  const auto& reported = ev_.diagnostics().all();
  const bool lost_brace = std::ranges::any_of(reported, [](const Diagnostic& d) { return d.code == "XG0111"; });
  if (lost_brace && !group.empty() && find_setting(kind, {}, node.key) != nullptr) {
    return;  // the missing `}` probably belongs before this setting
  }
  const std::string_view place = group.empty() ? keyword_of(kind) : group.substr(0, group.find(' '));
  const std::vector<std::string> names = setting_keys(kind, group);
  Fix fix = our_setting(node, kind, group, names,
                        {"leave it out, or write a setting of `{}`: {}", place, fmt::join(names, ", ")});
  if (!fix.edits.empty() && ev_.sources().text(node.key_span) != node.key) {
    fix.edits.clear();  // the key comes from --set, and its span is that of the value
  }
  // If the new key is shorter, spaces are added, so that the `=` stays in its column.
  if (!fix.edits.empty() && fix.edits[0].span == node.key_span && node.key.size() > fix.edits[0].text.size() &&
      node.key_span != node.span) {
    fix.edits[0].text.resize(node.key.size(), ' ');
  }
  ev_.report(fault("XG0210", node.key_span, {"unknown setting `{}` in `{}`", node.key, place},
                   {"not a setting of {}", place}, std::move(fix))
                 .note("an unknown setting is always an error: no setting is ignored"));
}

// The fix for an unknown setting: our name for a setting of another tool, else the nearest name in `known`, else
// `otherwise`.
Fix ModuleBuilder::our_setting(const SettingNode& node, DeclKind kind, std::string_view group,
                               const std::vector<std::string>& known, Help otherwise) {
  std::string_view ours = kind == DeclKind::kTrain && group.empty() ? foreign_setting(node.key) : std::string_view();
  for (const std::string& name : known) {
    ours = is_spelling_of(node.key, name) ? std::string_view(name) : ours;
  }
  if (ours.empty()) {
    return did_you_mean(node.key, known, node.key_span, std::move(otherwise));
  }
  if (ours.find_first_of("= ?") == std::string_view::npos) {
    return replacement({"`{}` is `{}` here", node.key, ours}, node.key_span, std::string(ours), true);
  }
  const std::string_view value = node.has_value() ? ev_.sources().text(value_span(node)) : std::string_view();
  const bool only_shown = ours.starts_with('?');
  ours.remove_prefix(only_shown ? 1 : 0);
  const std::string_view key = ours.substr(0, ours.find(' '));
  std::string line(ours);
  if (key == "precision" && (means_none(value) || value == "0")) {
    line = "precision = f32";
  } else if (key == "active_classes" && (value == "1" || value == "1.0")) {
    line = "active_classes = all";
  }
  for (size_t at = line.find("{}"); at != std::string::npos; at = line.find("{}", at + 1)) {
    const bool is_plain = !value.empty() && value.find_first_of("\n {}") == std::string_view::npos;
    line.replace(at, 2, is_plain ? value : key == "checkpoint.dir" || key == "init" || key == "a" ? "\"PATH\"" : "1");
  }
  const bool may_replace = !only_shown && node.has_value() && node.span.valid() && node.file != nullptr &&
                           written_.count(std::string(key.substr(0, key.find('.')))) == 0;
  if (may_replace) {
    written_.emplace(key.substr(0, key.find('.')));
  }
  return may_replace ? replacement({"write {}", line}, node.span, line, true) : Fix{"write " + line};
}

void ModuleBuilder::refuse_value(const SettingNode& node, const SettingDef& def) {
  Fix fix;
  for (size_t begin = 0; begin < def.example.size();) {
    const size_t end = std::min(def.example.find('\n', begin), def.example.size());
    const std::string line(def.example.substr(begin, end - begin));
    begin == 0 ? fix.title = line : fix.lines.emplace_back(line);
    begin = end + 1;
  }
  ev_.refuse("XG0205", node.key_span, {"`{}` is a group", node.key}, "has a value here", std::move(fix));
}

void ModuleBuilder::lower_group(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (!node.has_value()) {
    lower_settings(node, def.kind, def.key, scope);
  } else {
    refuse_value(node, def);
  }
}

std::optional<SettingChoice> ModuleBuilder::choose(const SettingNode& node, const SettingDef& def) {
  const std::string given = word(node);
  const Span at = value_span(node);
  std::vector<std::string> names;
  for (const SettingChoice& choice : choices_of(def)) {
    if (choice.word != given) {
      names.emplace_back(choice.word);
      continue;
    }
    if (choice.signature.empty() && symbol(node) != given) {
      return ev_.refuse("XG0204", at, {"`{}` of `{}` takes no arguments", given, node.key}, "",
                        replacement("write it alone", at, given));
    }
    return choice;
  }
  return ev_.refuse("XG0205", at, {"`{}` is one of {}", node.key, fmt::join(names, ", ")}, "not one of them",
                    our_choice(node, def, names));
}

// The fix for a value that is not one of the choices `names`.
Fix ModuleBuilder::our_choice(const SettingNode& node, const SettingDef& def, const std::vector<std::string>& names) {
  const Span at = value_span(node);
  const std::string given = word(node);
  const std::string_view text = node.has_value() ? ev_.sources().text(at) : std::string_view();
  const bool is_quoted = text.size() > 1 && text.front() == '"' && text.back() == '"';
  const std::string_view inner = is_quoted ? text.substr(1, text.size() - 2) : text;
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (const std::string_view ours = foreign_choice(node.key, inner); !ours.empty()) {
    return replacement({"write {}", ours}, at, std::string(ours), true);
  }
  if (means_none(inner) && (has("none") || has(def.fallback))) {
    const std::string off = has("none") ? "none" : std::string(def.fallback);
    return replacement({"write `{}`, which is the default", off}, at, off, true);
  }
  if (is_quoted && has(inner)) {
    return replacement("write the word without quotes", at, std::string(inner), true);
  }
  if (is_quoted && has("checkpoint")) {
    return replacement("write it as a checkpoint", at, {"checkpoint({})", text}, true);
  }
  const bool is_number = node.has_value() && (*node.ast)[node.value].kind == ExprKind::kNumber;
  if (is_number && has("norm")) {
    return replacement("clip the norm of all gradients", at, {"norm({})", text});
  }
  const std::string_view forms = def.choices.empty() ? def.type : def.choices;
  const bool has_calls = forms.find('(') != std::string_view::npos && names.size() < 6;
  const Help otherwise = has_calls ? Help("write one of {}", forms) : Help("write one of them");
  return given.empty() ? otherwise.fix : did_you_mean(given, names, at, otherwise);
}

// Checks a choice and its arguments without storing them.
void ModuleBuilder::check_choice(const SettingNode& node, Scope& scope, const SettingDef& def) {
  const auto choice = choose(node, def);
  if (!choice || choice->word == def.fallback) {
    return;
  }
  const auto bound = arguments(node, *choice, scope);
  if (!bound) {
    return;
  }
  for (const BoundArg& arg : *bound) {
    const std::string_view name = arg.param->name.text;
    const std::string_view type = arg.param->type.name.text;
    if (type == "span") {
      train_span(arg.value(), fmt::format("`{}` of `{}`", name, choice->word), arg.span);
    } else if (type == "quantity" && arg.value().kind != DatumKind::kNone) {
      quantity(arg.value(), name == "rate" ? choice->word : name, arg.value().span,
               name == "rate" ? Dimension::kRate : Dimension::kTime);
    }
  }
  say_later(node, def);
}

void ModuleBuilder::say_later(const SettingNode& node, const SettingDef& def) {
  const std::string_view place =
      def.group.empty() ? def.kind == DeclKind::kTrain ? std::string_view() : keyword_of(def.kind) : def.group;
  const std::string path = fmt::format("`{}{}{}`", place.substr(0, place.find(' ')), place.empty() ? "" : ".", def.key);
  Fix fix{def.instead.empty() ? fmt::format("leave `{}` out", def.key) : std::string(def.instead)};
  if (def.instead.empty() && (def.fallback == "none" || def.fallback == "all")) {
    fix = replacement({"leave it out, or write `{}`", def.fallback}, value_span(node), std::string(def.fallback));
  }
  ev_.not_yet(node.key_span, path, std::move(fix));
}

}  // namespace xrun::lang
