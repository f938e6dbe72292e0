// `xrun fix`: applies the sure fixes of diagnostics, round after round, until a check finds no more.
// Tests: tests/runtime/cli/commands/text_commands_test.cpp
#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "runtime/cli/commands/commands.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/model/model_text.h"
#include "runtime/lsp/repairs.h"

namespace xrun::cli {
namespace {

// The fix of one fault, such as a missing bracket, may reveal the next fault. If more rounds than this are needed, the
// edits undo each other.
constexpr int kMostRounds = 50;

class Command {
 public:
  Command(const GlobalOptions& options, const FixArgs& args, const Console& console)
      : options_(options), args_(args), console_(console) {}

  Outcome<int> run() {
    XRUN_ASSIGN(const auto files, find_model_files(args_.paths));
    int worst = 0;
    for (const std::string& path : files) {
      const Status done = file(path);
      worst = std::max(worst, done.ok() ? 0 : console_.fail(done.error()));
    }
    return worst;
  }

 private:
  // Fixes one file. Every round reads it and writes it at once, so that imports see the files on disk.
  Status file(const std::string& path) {
    for (int round = 0; round < kMostRounds; ++round) {
      XRUN_ASSIGN(const std::string text, read_model_text(path));
      SourceMap sources;
      Diagnostics diagnostics;
      const std::vector<Repair> repairs = find_repairs(path, sources, diagnostics);
      const std::string after = repaired(text, repairs);
      if (after == text) {
        report_rest(path, diagnostics.error_count());
        return {};
      }
      XRUN_TRY(write_model_text(path, after));
      for (const Repair& repair : repairs) {
        tell(path, repair, sources);
      }
    }
    return content_error("XG0125", {"`{}` still has faults after {} rounds of edits", path, kMostRounds},
                         "correct what `xrun check` still finds by hand, and please report it");
  }

  // Finds the edits to this file alone. Another file is only edited if the command line names it as well.
  std::vector<Repair> find_repairs(const std::string& path, SourceMap& sources, Diagnostics& diagnostics) const {
    (void)lang::load(path, sources, diagnostics, {.ops = &ops::registry(), .run = options_.run, .sets = options_.sets});
    return sure_repairs(diagnostics, sources, path);
  }

  void tell(const std::string& path, const Repair& repair, const SourceMap& sources) const {
    if (console_.json()) {
      console_.out(json_line({{"v", 1},
                              {"file", path},
                              {"code", repair.code},
                              {"line", sources.position(repair.place.file, repair.place.begin).line},
                              {"title", repair.title}}));
      return;
    }
    console_.out("  " + printable_line(sources.place(repair.place)) + ": " + repair.code + ": " +
                 printable_line(repair.title) + "\n");
  }

  // Reports the number of errors that have no sure fix.
  void report_rest(const std::string& path, int errors) const {
    if (errors > 0 && !console_.json()) {
      const std::string shown = printable_line(path);
      console_.note("  " + shown + ": " + std::to_string(errors) + (errors == 1 ? " error is" : " errors are") +
                    " left for you: xrun check " + shown + "\n");
    }
  }

  const GlobalOptions& options_;
  const FixArgs& args_;
  const Console& console_;
};

}  // namespace

Outcome<int> run_fix(const GlobalOptions& options, const FixArgs& args) {
  const Console console(options);
  return Command(options, args, console).run();
}

}  // namespace xrun::cli
