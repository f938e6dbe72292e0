// Checks a file after the loader has read it and its imports:
//   1. The --set flags are parsed, and options get their values.
//   2. The declarations of the run are chosen, by --run, by a `run` declaration, or as the only ones of their kinds
//      (run_choice.h).
//   3. ModuleBuilder lowers them to a Module and checks the settings of all other declarations.
//   4. Constants are evaluated. If there are no errors, the `test` blocks run.
//   5. check_uncalled tries the declarations that nothing has called.
// check_headers is called before and after step 2, since --cluster and --schedule may load further files.
// Tests: tests/lang/check_test.cpp, tests/lang/load_texts_test.cpp
#include "lang/frontend.h"

#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "graph/base/sha256.h"
#include "lang/elaborate/facts.h"
#include "lang/elaborate/options.h"
#include "lang/elaborate/trials/check_types.h"
#include "lang/elaborate/trials/uncalled.h"
#include "lang/lower/math_text.h"
#include "lang/lower/module_builder.h"
#include "lang/run_choice.h"
#include "lang/syntax/parser.h"
#include "lang/text/nearest.h"
#include "lang/text/std_library.h"

namespace xrun::lang {
namespace {

class Frontend {
 public:
  Frontend(SourceMap& sources, Diagnostics& diagnostics, const FrontendOptions& options, bool reads_files)
      : sources_(sources),
        diagnostics_(diagnostics),
        options_(options),
        loader_(std::make_shared<Loader>(sources, diagnostics, reads_files, options.open)),
        signatures_(sources),
        evaluator_(sources, diagnostics, options, signatures_) {
    evaluator_.set_library([this](const char* file) { return loader_->load_std(file); });
  }

  Loader& loader() { return *loader_; }

  std::optional<CheckedFile> run(const SourceFile* main) {
    if (options_.facts != nullptr) {
      options_.facts->files = loader_;
      options_.facts->main = main;
    }
    if (main == nullptr) {
      return std::nullopt;
    }
    main_ = main;
    read_flags();
    set_options();
    check_headers();
    const bool parsed = !diagnostics_.has_errors();
    const Choice choice = choose_run(*main, options_, *loader_, diagnostics_);
    check_headers();
    CheckedFile checked;
    ModuleBuilder builder(evaluator_, *main, options_.data != nullptr ? *options_.data : data_registry(), flags_);
    builder.read_moved(loader_->files());
    checked.module = builder.build(choice);
    checked.earlier_norm_rows = builder.earlier_norm_rows();
    checked.run = builder.run();
    for (const Decl& decl : main->ast.decls) {
      builder.check_unchosen({main, &decl});
    }
    check_constants(*main);
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
    for (const SourceFile& file : loader_->files()) {
      // Library files that need no import are part of the program, like operators, so they are not sources.
      if (!is_known_without_import(file.path)) {
        checked.module.sources.push_back({file.path, sha256_hex(sources_.text(file.file))});
      }
    }
    if (diagnostics_.has_errors()) {
      return std::nullopt;
    }
    return checked;
  }

 private:
  // Parses the values of --set PATH=VALUE as expressions of the language.
  void read_flags() {
    for (const auto& [path, value, directory] : options_.sets) {
      const int32_t file = sources_.add("--set " + path, value);
      SetFlag& flag = flags_.emplace_back();
      flag.path = path;
      flag.directory = directory;
      const DeclRef option = main_->find(path);
      const bool is_string = option && option.decl->kind == DeclKind::kOption && option.decl->type_name.text == "str";
      if (is_string && !value.starts_with('"')) {
        flag.ast = string_value(file, value);
      } else if (value.find_first_not_of(' ') == std::string::npos) {
        diagnostics_.add(fault("XG0110", {}, {"`--set {}=` has no value", path}, "",
                               {"write it after the `=`: --set {}=VALUE", path}));
      } else {
        flag.ast = parse_value(sources_, file, diagnostics_);
      }
    }
  }

  // The syntax tree that the parser would make of the text in quotes.
  static Ast string_value(int32_t file, const std::string& text) {
    Ast ast;
    ast.file = file;
    ast.strings.push_back(text);
    ast.exprs.push_back({.kind = ExprKind::kString, .span = {file, 0, static_cast<uint32_t>(text.size())}});
    ast.value = ExprId(0);
    return ast;
  }

  void set_options() {
    for (SetFlag& flag : flags_) {
      const Span at{flag.ast.file, 0, 0};
      const size_t dot = flag.path.find('.');
      if (("." + flag.path + ".").find("..") != std::string::npos) {
        diagnostics_.add(fault("XG0210", at, {"`--set {}` names no setting", flag.path}, "a step of the path is empty",
                               {"write names with a dot between them, as in schedule.stages"}));
        flag.path.clear();  // so that it matches no declaration
        continue;
      }
      if (dot != std::string::npos) {
        const DeclKind kind = kind_of(std::string_view(flag.path).substr(0, dot));
        if (!has_settings(kind) || kind == DeclKind::kRun) {
          diagnostics_.add(fault("XG0210", at, {"`--set {}` names no setting", flag.path}, "",
                                 {"begin the path with data, train, cluster or schedule"}));
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
        const std::string near = nearest(flag.path, known);
        const std::string value(sources_.text(at.file));
        std::string setting = setting_flag(flag.path, value, Nearness::kExact);
        setting = setting.empty() && near.empty() ? setting_flag(flag.path, value, Nearness::kNear) : setting;
        diagnostics_.add(fault("XG0201", at, {"the file has no option `{}`", flag.path}, "",
                               {!setting.empty() ? "did you mean `" + setting + "`?"
                                : !near.empty()  ? "did you mean `" + near + "`?"
                                : known.empty() ? fmt::format("declare it in the file: option {}: int = ...", flag.path)
                                                : fmt::format("its options are {}", fmt::join(known, ", "))}));
        continue;
      }
      if (!flag.ast.value.valid()) {
        continue;
      }
      Scope scope{.file = main_};
      evaluator_.set_option(found.decl, evaluator_.eval(flag.ast, flag.ast.value, scope),
                            flag.ast[flag.ast.value].span);
    }
  }

  // Checks the options, the types and the `extends` of all files that were read since the last call.
  void check_headers() {
    for (; headers_checked_ < loader_->files().size(); ++headers_checked_) {
      const SourceFile& file = loader_->files()[headers_checked_];
      check_types(file, diagnostics_);
      for (const Decl& decl : file.ast.decls) {
        if (decl.kind == DeclKind::kOption) {
          check_option(evaluator_, file, decl);
        }
        check_extends({&file, &decl}, diagnostics_);
      }
    }
  }

  // Evaluates all constants of the file, which do not depend on a run, so that their faults are reported.
  void check_constants(const SourceFile& file) {
    for (const Decl& decl : file.ast.decls) {
      if (decl.kind == DeclKind::kLet) {
        evaluator_.eval_constant({&file, &decl});
      }
    }
  }

  SourceMap& sources_;
  Diagnostics& diagnostics_;
  const FrontendOptions& options_;
  std::shared_ptr<Loader> loader_;
  Signatures signatures_;
  Evaluator evaluator_;
  const SourceFile* main_ = nullptr;
  size_t headers_checked_ = 0;
  std::deque<SetFlag> flags_;
};

// Loads the files that `path` imports, and then `path` itself, so that the loader finds each import among the loaded
// texts. `met` has the files visited so far and ends the recursion in a cycle. Imports that are not loaded are reported
// by the loader.
const SourceFile* load_imports_first(const std::string& path, const Texts& texts, std::set<std::string>& met,
                                     Loader& loader) {
  const auto text = texts.find(std::filesystem::path(path).lexically_normal().string());
  if (text == texts.end() || !met.insert(text->first).second) {
    return nullptr;
  }
  SourceMap sources;
  Diagnostics faults;
  const Ast ast = parse(sources, sources.add(path, text->second), faults);
  for (const Decl& decl : ast.decls) {
    const bool imports = decl.kind == DeclKind::kImport || decl.kind == DeclKind::kFrom;
    if (imports && decl.text.valid() && ast[decl.text].kind == ExprKind::kString) {
      const std::string& name = ast.text(decl.text);
      const auto directory = std::filesystem::path(path).parent_path();
      load_imports_first(name.starts_with("std/") ? name : (directory / name).string(), texts, met, loader);
    }
  }
  return loader.load_text(text->first, text->second);
}

}  // namespace

std::string setting_flag(std::string_view key, const std::string& value, Nearness nearness) {
  std::string found;
  for (const DeclKind kind : {DeclKind::kTrain, DeclKind::kSchedule}) {
    const std::string meant = nearness == Nearness::kNear              ? nearest(key, setting_keys(kind, {}))
                              : find_setting(kind, {}, key) != nullptr ? std::string(key)
                                                                       : std::string();
    if (found.empty() && !meant.empty()) {
      found = fmt::format("{}.{}={}", keyword_of(kind), meant, value);
    }
  }
  // A flag that contains characters with a meaning for the shell is quoted.
  const bool is_plain = found.find_first_of(" ()[]{}\"'$&;<>|*?#~`\\!") == std::string::npos;
  return found.empty() ? found : is_plain ? "--set " + found : "--set '" + found + "'";
}

std::optional<CheckedFile> load_texts(const std::string& path, const Texts& texts, SourceMap& sources,
                                      Diagnostics& diagnostics, const FrontendOptions& options) {
  Frontend frontend(sources, diagnostics, options, false);
  std::set<std::string> met;
  // The files of --cluster and --schedule are loaded first, since run() looks for them among the loaded texts.
  for (const std::string& flag : {options.cluster, options.schedule}) {
    load_imports_first(flag.substr(0, flag.rfind(':')), texts, met, frontend.loader());
  }
  return frontend.run(load_imports_first(path, texts, met, frontend.loader()));
}

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
