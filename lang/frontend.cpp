#include "lang/frontend.h"

#include <deque>
#include <fmt/format.h>

#include "lang/module_builder.h"
#include "lang/nearest.h"
#include "lang/parser.h"
#include "lang/uncalled.h"

namespace xrun::lang {
namespace {

class Frontend {
 public:
  Frontend(SourceMap& sources, Diagnostics& diagnostics, const FrontendOptions& options, bool reads_files)
      : sources_(sources),
        diagnostics_(diagnostics),
        options_(options),
        loader_(sources, diagnostics, reads_files),
        signatures_(sources),
        evaluator_(sources, diagnostics, options, signatures_) {}

  Loader& loader() { return loader_; }

  std::optional<CheckedFile> run(const SourceFile* main) {
    if (main == nullptr) {
      return std::nullopt;
    }
    main_ = main;
    read_flags();
    set_options();
    const bool parsed = !diagnostics_.has_errors();
    const Choice choice = choose();
    CheckedFile checked;
    ModuleBuilder builder(evaluator_, *main, options_.data != nullptr ? *options_.data : data_registry(), flags_);
    checked.module = builder.build(choice);
    check_declarations(*main);
    for (Diagnostic& later : evaluator_.take_not_yet()) {
      checked.module.not_yet.push_back(std::move(later));
    }
    if (parsed && !diagnostics_.has_errors()) {
      for (const Decl& decl : main->ast.decls) {
        if (decl.kind == DeclKind::kTest) {
          checked.tests.push_back(evaluator_.run_test(*main, decl));
        }
      }
    }
    if (!evaluator_.exhausted()) {
      check_uncalled(evaluator_, *main);
    }
    for (const SourceFile& file : loader_.files()) {
      checked.module.sources.push_back({file.path, sha256_hex(sources_.text(file.file))});
    }
    if (diagnostics_.has_errors()) {
      return std::nullopt;
    }
    return checked;
  }

 private:
  void report(const char* code, Span at, std::string message, std::string label = {}) {
    diagnostics_.add(Evaluator::fault(code, at, std::move(message), std::move(label)));
  }

  // --set PATH=VALUE, parsed as expressions of the language.
  void read_flags() {
    for (const auto& [path, value] : options_.sets) {
      const int32_t file = sources_.add("--set " + path, value);
      SetFlag& flag = flags_.emplace_back();
      flag.path = path;
      flag.ast = parse_value(sources_, file, diagnostics_);
    }
  }

  static std::optional<DeclKind> kind_of(std::string_view word) {
    for (const DeclKind kind : {DeclKind::kData, DeclKind::kTrain, DeclKind::kCluster, DeclKind::kSchedule}) {
      if (keyword_of(kind) == word) {
        return kind;
      }
    }
    return std::nullopt;
  }

  void set_options() {
    for (const SetFlag& flag : flags_) {
      const Span at{flag.ast.file, 0, 0};
      const size_t dot = flag.path.find('.');
      if (dot != std::string::npos) {
        if (!kind_of(std::string_view(flag.path).substr(0, dot))) {
          report("XG0210", at, fmt::format("`--set {}` names no setting", flag.path),
                 "a path starts with data, train, cluster or schedule");
        }
        continue;
      }
      const DeclRef found = main_->find(flag.path);
      if (!found || found.decl->kind != DeclKind::kOption) {
        std::vector<std::string> known;
        for (const auto& [name, decl] : main_->names) {
          if (decl->kind == DeclKind::kOption) {
            known.emplace_back(name);
          }
        }
        Diagnostic d = Evaluator::fault("XG0201", at, fmt::format("the file has no option `{}`", flag.path), "");
        if (const std::string near = nearest(flag.path, known); !near.empty()) {
          d.fixes.push_back({.title = "did you mean `" + near + "`?"});
        }
        diagnostics_.add(std::move(d));
        continue;
      }
      if (!flag.ast.value.valid()) {
        continue;
      }
      Scope scope;
      scope.file = main_;
      Datum value = evaluator_.eval(flag.ast, flag.ast.value, scope);
      // A path on the command line is seldom quoted twice.
      evaluator_.set_option(found.decl, std::move(value), at);
    }
    for (const SourceFile& file : loader_.files()) {
      for (const Decl& decl : file.ast.decls) {
        if (decl.kind == DeclKind::kOption) {
          check_option(file, decl);
        }
      }
    }
  }

  // The value of an option is of the declared type and in the declared range.
  void check_option(const SourceFile& file, const Decl& decl) {
    Datum value = evaluator_.eval_constant({&file, &decl});
    if (value.hole()) {
      if (!decl.value.valid()) {
        report("XG0204", decl.name.span, fmt::format("option `{}` has no value", decl.name.text),
               fmt::format("give it one by --set {}=...", decl.name.text));
      }
      return;
    }
    const std::string_view type = decl.type_name.text;
    const bool known = type == "int" || type == "float" || type == "bool" || type == "str";
    if (!known) {
      report("XG0205", decl.type_name.span, fmt::format("an option is an int, float, bool or str, not `{}`", type), "");
      return;
    }
    const bool good = type == "int"     ? to_int64(value).has_value()
                      : type == "float" ? value.plain_number()
                      : type == "bool"  ? value.kind == DatumKind::kBool
                                        : value.kind == DatumKind::kString;
    if (!good) {
      Diagnostic d = Evaluator::fault("XG0205", value.span.valid() ? value.span : decl.name.span,
                                      fmt::format("option `{}` is {}, not {}", decl.name.text,
                                                  type == "int"    ? "a whole number"
                                                  : type == "str"  ? "a string"
                                                  : type == "bool" ? "true or false"
                                                                   : "a number",
                                                  kind_text(value)));
      if (value.span != decl.name.span && value.span.valid()) {
        d.secondary.push_back({decl.name.span, "declared here"});
      }
      if (type == "str") {
        d.notes.push_back(fmt::format("strings are quoted: --set '{}=\"...\"'", decl.name.text));
      }
      diagnostics_.add(std::move(d));
      return;
    }
    if (type == "float") {
      value = make_real(value.as_double());
      evaluator_.set_option(&decl, value, decl.name.span);
    }
    if (!decl.range.valid()) {
      return;
    }
    Scope scope;
    scope.file = &file;
    const Datum range = evaluator_.eval(file.ast, decl.range, scope);
    if (range.hole()) {
      return;
    }
    bool inside = false;
    std::string problem;
    if (range.kind == DatumKind::kRange && value.plain_number()) {
      // Bounds of an option are values that it may have, so both ends count.
      const Datum& last = (*range.items)[1];
      const Datum low = constant_binary(Op::kGe, value, (*range.items)[0], problem);
      const Datum high = constant_binary(Op::kLe, value, last, problem);
      inside = low.flag && high.flag;
    } else if (range.kind == DatumKind::kList) {
      inside = std::any_of(range.items->begin(), range.items->end(), [&](const Datum& d) { return equal(d, value); });
    } else {
      report("XG0205", range.span, "what an option may be is a range or a list", "this is " + kind_text(range));
      return;
    }
    if (!inside) {
      Diagnostic d = Evaluator::fault("XG0214", value.span.valid() ? value.span : decl.name.span,
                                      fmt::format("option `{}` cannot be {}", decl.name.text, to_text(value)));
      d.secondary.push_back({range.span, "what it may be"});
      diagnostics_.add(std::move(d));
    }
  }

  DeclRef by_name(const SourceFile& file, DeclKind kind, std::string_view name, Span at) {
    const DeclRef found = file.find(kind, name);
    if (!found) {
      std::vector<std::string> known;
      for (const DeclRef& other : file.all(kind)) {
        known.emplace_back(other.decl->name.text);
      }
      Diagnostic d =
          Evaluator::fault("XG0213", at, fmt::format("there is no `{} {}`", keyword_of(kind), name), "unknown name");
      if (const std::string near = nearest(name, known); !near.empty()) {
        Fix fix{.title = "did you mean `" + near + "`?", .edits = {}};
        if (at.valid()) {
          fix.edits.push_back({at, near});
        }
        d.fixes.push_back(std::move(fix));
      }
      diagnostics_.add(std::move(d));
    }
    return found;
  }

  // The only declaration of a kind; more than one is a question that only `run` answers.
  DeclRef only(DeclKind kind) {
    const auto found = main_->all(kind);
    if (found.size() > 1) {
      Diagnostic d =
          Evaluator::fault("XG0213", found[1].decl->keyword,
                           fmt::format("the file has {} declarations of `{}`, and nothing says which one is meant",
                                       found.size(), keyword_of(kind)),
                           "another one");
      d.secondary.push_back({found[0].decl->keyword, "one"});
      d.fixes.push_back({.title = fmt::format("name it in a `run`: run NAME {{ {} = {} }}", keyword_of(kind),
                                              found[0].decl->name.text)});
      diagnostics_.add(std::move(d));
      return {};
    }
    return found.empty() ? DeclRef{} : found[0];
  }

  Choice choose() {
    Choice choice;
    const auto runs = main_->all(DeclKind::kRun);
    DeclRef run;
    if (!options_.run.empty()) {
      run = by_name(*main_, DeclKind::kRun, options_.run, {});
      if (!run) {
        return choice;
      }
    } else if (!runs.empty()) {
      run = only(DeclKind::kRun);
      if (!run) {
        return choice;
      }
    }
    const std::pair<DeclKind, DeclRef*> kinds[] = {{DeclKind::kModel, &choice.model},
                                                   {DeclKind::kData, &choice.data},
                                                   {DeclKind::kTrain, &choice.train},
                                                   {DeclKind::kCluster, &choice.cluster},
                                                   {DeclKind::kSchedule, &choice.schedule}};
    Settings chosen;
    if (run) {
      chosen = read_settings(*run.file, *run.decl, diagnostics_);
      for (const SettingNode& node : chosen.root.children) {
        if (!is_setting(DeclKind::kRun, node.key) || !node.has_value()) {
          Diagnostic d = Evaluator::fault(
              "XG0210", node.key_span, fmt::format("unknown setting `{}` in `run`", node.key), "not a setting of run");
          d.notes.push_back("a run names its model, data, train, cluster and schedule");
          diagnostics_.add(std::move(d));
        }
      }
    }
    for (const auto& [kind, slot] : kinds) {
      if ((kind == DeclKind::kCluster && !options_.cluster.empty()) ||
          (kind == DeclKind::kSchedule && !options_.schedule.empty())) {
        *slot = from_flag(kind, kind == DeclKind::kCluster ? options_.cluster : options_.schedule);
        continue;
      }
      const SettingNode* node = run ? chosen.root.find(keyword_of(kind)) : nullptr;
      if (node == nullptr || !node->has_value()) {
        *slot = only(kind);
        continue;
      }
      const std::string name = path_text(*node->ast, node->value);
      const size_t dot = name.find('.');
      const SourceFile* file = run.file;
      if (dot != std::string::npos) {
        const auto module = file->modules.find(name.substr(0, dot));
        file = module == file->modules.end() ? file : module->second;
      }
      *slot = by_name(*file, kind, std::string_view(name).substr(dot == std::string::npos ? 0 : dot + 1),
                      (*node->ast)[node->value].span);
    }
    return choice;
  }

  // --cluster FILE[:NAME]
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
      report("XG0213", {}, fmt::format("`{}` has {} declarations of `{}`", path, all.size(), keyword_of(kind)), "");
      return {};
    }
    return all[0];
  }

  // What no run asks for is checked as far as it goes without one.
  void check_declarations(const SourceFile& file) {
    for (const Decl& decl : file.ast.decls) {
      if (decl.kind == DeclKind::kLet) {
        evaluator_.eval_constant({&file, &decl});
      } else if (decl.kind == DeclKind::kMoved) {
        evaluator_.not_yet(decl.keyword, "`moved`");
      }
    }
  }

  SourceMap& sources_;
  Diagnostics& diagnostics_;
  const FrontendOptions& options_;
  Loader loader_;
  Signatures signatures_;
  Evaluator evaluator_;
  const SourceFile* main_ = nullptr;
  std::deque<SetFlag> flags_;
};

}  // namespace

std::optional<CheckedFile> load(const std::string& path, SourceMap& sources, Diagnostics& diagnostics,
                                const FrontendOptions& options) {
  Frontend frontend(sources, diagnostics, options, true);
  const SourceFile* main = frontend.loader().load_file(path);
  return frontend.run(main);
}

std::optional<CheckedFile> check_text(const std::string& name, std::string text, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options) {
  Frontend frontend(sources, diagnostics, options, false);
  const SourceFile* main = frontend.loader().load_text(name, std::move(text));
  return frontend.run(main);
}

}  // namespace xrun::lang
