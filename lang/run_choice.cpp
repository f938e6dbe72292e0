// Tests: tests/lang/check_test.cpp, tests/lang/load_texts_test.cpp
#include "lang/run_choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "lang/lower/setting_def.h"
#include "lang/lower/settings.h"
#include "lang/text/nearest.h"

namespace xrun::lang {
namespace {

class RunChoice {
 public:
  RunChoice(const SourceFile& main, const FrontendOptions& options, Loader& loader, Diagnostics& diagnostics)
      : main_(main), options_(options), loader_(loader), diagnostics_(diagnostics) {}

  Choice choose() {
    Choice choice;
    DeclRef run;
    if (!options_.run.empty()) {
      run = by_name(main_, DeclKind::kRun, options_.run, {});
      if (!run) {
        return choice;
      }
    } else if (!main_.all(DeclKind::kRun).empty()) {
      run = only(DeclKind::kRun);
      if (!run) {
        return choice;
      }
    }
    Settings chosen;
    if (run) {
      chosen = read_settings(run, diagnostics_);
      check_keys(chosen);
    }
    const std::pair<DeclKind, DeclRef*> kinds[] = {{DeclKind::kModel, &choice.model},
                                                   {DeclKind::kData, &choice.data},
                                                   {DeclKind::kTrain, &choice.train},
                                                   {DeclKind::kCluster, &choice.cluster},
                                                   {DeclKind::kSchedule, &choice.schedule}};
    for (const auto& [kind, slot] : kinds) {
      if ((kind == DeclKind::kCluster && !options_.cluster.empty()) ||
          (kind == DeclKind::kSchedule && !options_.schedule.empty())) {
        *slot = from_flag(kind, kind == DeclKind::kCluster ? options_.cluster : options_.schedule);
        continue;
      }
      const SettingNode* node = run ? chosen.root.find(keyword_of(kind)) : nullptr;
      *slot = node == nullptr ? only(kind) : from_run(kind, *node);
    }
    choice.has_unknown_data = run && chosen.root.find(keyword_of(DeclKind::kData)) != nullptr && !choice.data;
    return choice;
  }

 private:
  // Checks the keys of a `run` declaration, and that their values are names.
  void check_keys(const Settings& chosen) {
    for (const SettingNode& node : chosen.root.children) {
      if (find_setting(DeclKind::kRun, {}, node.key) != nullptr) {
        if (!node.has_value() || path_text(*node.ast, node.value).empty()) {
          diagnostics_.add(fault("XG0205", value_span(node), {"`{}` of a run is a name", node.key}, "not a name",
                                 {"write the name of a declaration: {} = NAME", node.key}));
        }
      } else {
        diagnostics_.add(
            fault("XG0210", node.key_span, {"unknown setting `{}` in `run`", node.key}, "not a setting of run",
                  did_you_mean(node.key, {"model", "data", "train", "cluster", "schedule"}, node.key_span,
                               {"a run names its model, data, train, cluster and schedule: KIND = NAME"})));
      }
    }
  }

  // The names of the declarations of one kind. Declarations without a name are left out, since no text can refer to
  // them.
  static std::vector<std::string> names_of(const SourceFile& file, DeclKind kind) {
    std::vector<std::string> names;
    for (const DeclRef& other : file.all(kind)) {
      if (other.decl->name) {
        names.emplace_back(other.decl->name.text);
      }
    }
    return names;
  }

  static std::string few_of(const std::vector<std::string>& names) {
    constexpr size_t kFew = 12;
    const size_t shown = std::min(names.size(), kFew);
    return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                       shown < names.size() ? ", ..." : "");
  }

  DeclRef by_name(const SourceFile& file, DeclKind kind, std::string_view name, Span at) {
    const DeclRef found = file.find(kind, name);
    if (!found) {
      const std::vector<std::string> known = names_of(file, kind);
      Fix fix = did_you_mean(name, known, at,
                             {known.empty() ? fmt::format("it names no `{}`: declare one, {} {} {{ ... }}",
                                                          keyword_of(kind), keyword_of(kind), name)
                                            : fmt::format("name one that it has: {}", few_of(known))});
      if (!at.valid()) {
        fix.edits.clear();  // the name is on the command line, not in a file that could be edited
      }
      diagnostics_.add(fault("XG0213", at, {"`{}` has no `{} {}`", file.path, keyword_of(kind), name}, "unknown name",
                             std::move(fix)));
    }
    return found;
  }

  // The only declaration of a kind; empty if the file has no such declaration. Several declarations are reported,
  // because it is not clear which one is meant. A file without a model is an exception: it trains nothing, and may have
  // several declarations for other files or for --cluster.
  DeclRef only(DeclKind kind) {
    const auto found = main_.all(kind);
    if (found.size() > 1 && main_.all(DeclKind::kModel).empty()) {
      return {};
    }
    if (found.size() > 1) {
      const std::vector<std::string> names = names_of(main_, kind);
      const std::string_view name = names.empty() ? "NAME" : std::string_view(names[0]);
      diagnostics_.add(fault("XG0213", found[1].decl->keyword,
                             {"the file has {} declarations of `{}`, and nothing says which one is meant", found.size(),
                              keyword_of(kind)},
                             "another one",
                             {kind == DeclKind::kRun
                                  ? fmt::format("name it: --run {}", name)
                                  : fmt::format("name it in a `run`: run NAME {{ {} = {} }}", keyword_of(kind), name)})
                           .also(found[0].decl->keyword, "one"));
      return {};
    }
    return found.empty() ? DeclRef{} : found[0];
  }

  // The declaration that a setting of a `run` declaration names.
  DeclRef from_run(DeclKind kind, const SettingNode& node) {
    const std::string name = node.has_value() ? path_text(*node.ast, node.value) : "";
    const SourceFile* file = node.file;
    if (name.empty() || file->is_missing(name)) {
      return {};  // already reported
    }
    const Span at = (*node.ast)[node.value].span;
    const size_t dot = name.find('.');
    if (dot != std::string::npos) {
      const auto module = file->modules.find(name.substr(0, dot));
      if (module == file->modules.end()) {
        diagnostics_.add(fault("XG0201", at, {"nothing is imported as `{}`", name.substr(0, dot)}, "unknown import",
                               {"import it: import \"FILE\" as {}", name.substr(0, dot)}));
        return {};
      }
      file = module->second;
    }
    return by_name(*file, kind, std::string_view(name).substr(dot == std::string::npos ? 0 : dot + 1), at);
  }

  // The declaration that the flag --cluster FILE[:NAME] or --schedule FILE[:NAME] names.
  DeclRef from_flag(DeclKind kind, const std::string& flag) {
    const size_t colon = flag.rfind(':');
    const std::string path = flag.substr(0, colon);
    const SourceFile* file = loader_.load_file(path);
    if (file == nullptr) {
      return {};
    }
    if (colon != std::string::npos) {
      return by_name(*file, kind, std::string_view(flag).substr(colon + 1), {});
    }
    const auto all = file->all(kind);
    if (all.size() != 1) {
      const std::string_view word = keyword_of(kind);
      const std::vector<std::string> names = names_of(*file, kind);
      diagnostics_.add(
          fault("XG0213", {},
                all.empty() ? fmt::format("`{}` declares no `{}`", path, word)
                            : fmt::format("`{}` has {} declarations of `{}`, and nothing says which one is meant", path,
                                          all.size(), word),
                "",
                {all.empty()     ? fmt::format("--{} takes a file that declares one", word)
                 : names.empty() ? "give them names"
                                 : fmt::format("name one of {}: --{} {}:{}", few_of(names), word, path, names[0])}));
      return {};
    }
    return all[0];
  }

  const SourceFile& main_;
  const FrontendOptions& options_;
  Loader& loader_;
  Diagnostics& diagnostics_;
};

}  // namespace

Choice choose_run(const SourceFile& main, const FrontendOptions& options, Loader& loader, Diagnostics& diagnostics) {
  return RunChoice(main, options, loader, diagnostics).choose();
}

}  // namespace xrun::lang
