// Lowers settings by their records: look-up, groups, choices, and settings of a later edition.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lang/foreign_names.h"
#include "lang/lower/module_builder.h"
#include "lang/nearest.h"

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
    return;  // the missing `}` stands before it
  }
  const std::string_view place = group.empty() ? keyword_of(kind) : group.substr(0, group.find(' '));
  const std::vector<std::string> names = setting_keys(kind, group);
  Fix fix = our_name(NameKind::kSetting, node.key, names, node.key_span,
                     {"leave it out, or write one that `{}` knows: {}", place, fmt::join(names, ", ")});
  if (!fix.edits.empty() && ev_.sources().text(node.key_span) != node.key) {
    fix.edits.clear();  // the key is from --set, and its span is that of the value
  }
  // Pads a shorter key, which keeps the column of the `=`.
  if (!fix.edits.empty() && node.key.size() > fix.edits[0].text.size() && node.key_span != node.span) {
    fix.edits[0].text.resize(node.key.size(), ' ');
  }
  ev_.report(fault("XG0210", node.key_span, {"unknown setting `{}` in `{}`", node.key, place},
                   {"not a setting of {}", place}, std::move(fix))
                 .note("a setting is known or it is an error; none is ever ignored"));
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
  const std::string_view ours = foreign_name(NameKind::kChoice, path_text(*node.ast, node.value));
  const bool is_known = std::ranges::find(names, ours.substr(0, ours.find('('))) != names.end();
  Fix fix = is_known        ? replacement({"write {}", ours}, at, std::string(ours))
            : given.empty() ? Fix{"write one of them"}
                            : did_you_mean(given, names, at, {"write one of them"});
  return ev_.refuse("XG0205", at, {"`{}` is one of {}", node.key, fmt::join(names, ", ")}, "not one of them",
                    std::move(fix));
}

// Checks a choice and its arguments, and stores nothing.
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

void ModuleBuilder::say_unread(const SettingNode& node, Scope&, const SettingDef& def) { say_later(node, def); }

void ModuleBuilder::say_later(const SettingNode& node, const SettingDef& def) {
  const std::string_view place =
      def.group.empty() ? def.kind == DeclKind::kTrain ? std::string_view() : keyword_of(def.kind) : def.group;
  const std::string path = fmt::format("`{}{}{}`", place.substr(0, place.find(' ')), place.empty() ? "" : ".", def.key);
  Fix fix{def.instead.empty() ? fmt::format("leave `{}` out", def.key) : std::string(def.instead)};
  if (def.instead.empty() && (def.fallback == "none" || def.fallback == "all")) {
    fix = replacement({"leave it out, or write `{}`", def.fallback}, value_span(node), std::string(def.fallback));
  }
  ev_.not_yet(node.key_span, def.what.empty() ? path : fmt::format(fmt::runtime(def.what), word(node)), std::move(fix));
}

}  // namespace xrun::lang
