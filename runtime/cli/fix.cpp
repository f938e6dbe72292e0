// `xrun fix`: carries out the edits of messages that are sure, round after round, until a check finds none.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/console.h"
#include "runtime/cli/model_text.h"

namespace xrun::cli {
namespace {

// An edit may uncover the next fault, as that of a bracket does; more rounds than these mean that edits undo each
// other.
constexpr int kMostRounds = 50;

// What one message asks for.
struct Repair {
  std::string code;
  std::string title;
  Span place;
  std::vector<Edit> edits;
};

bool touch(const Edit& a, const Edit& b) {
  return a.span.begin <= b.span.end && b.span.begin <= a.span.end;  // two insertions at one place, too
}

class Command {
 public:
  Command(const GlobalOptions& options, const FixArgs& args, const Console& console)
      : options_(options), args_(args), console_(console) {}

  int run() {
    const auto files = find_model_files(args_.paths);
    if (!files.ok()) {
      return console_.fail(files.error());
    }
    int worst = 0;
    for (const std::string& path : *files) {
      const Status done = file(path);
      worst = std::max(worst, done.ok() ? 0 : console_.fail(done.error()));
    }
    return worst;
  }

 private:
  // Every round reads the file, so that its imports are those on disk, and writes it at once.
  Status file(const std::string& path) {
    for (int round = 0; round < kMostRounds; ++round) {
      XRUN_ASSIGN(const std::string text, read_model_text(path));
      SourceMap sources;
      Diagnostics diagnostics;
      const std::vector<Repair> repairs = first_of_each_place(find_repairs(path, sources, diagnostics));
      const std::string after = repaired(text, repairs);
      if (after == text) {
        tell_rest(path, diagnostics.error_count());
        return {};
      }
      XRUN_TRY(write_model_text(path, after));
      for (const Repair& repair : repairs) {
        tell(path, repair, sources);
      }
    }
    return content_error("XG0125", {"`{}` has faults again after {} rounds of edits", path, kMostRounds},
                         "correct what `xrun check` still finds by hand, and please report it");
  }

  // The sure fixes of the file alone: the text of another one changes only where that is named, too.
  std::vector<Repair> find_repairs(const std::string& path, SourceMap& sources, Diagnostics& diagnostics) const {
    (void)lang::load(path, sources, diagnostics, {.ops = &ops::registry(), .run = options_.run, .sets = options_.sets});
    std::vector<Repair> repairs;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
      const auto fix = std::ranges::find_if(diagnostic.fixes, [&](const Fix& one) {
        return one.sure && !one.edits.empty() &&
               std::ranges::all_of(one.edits, [&](const Edit& edit) { return is_of(edit.span, path, sources); });
      });
      if (fix != diagnostic.fixes.end()) {
        repairs.push_back({diagnostic.code, fix->title, diagnostic.primary.span, fix->edits});
      }
    }
    return repairs;
  }

  static bool is_of(const Span& span, const std::string& path, const SourceMap& sources) {
    return span.valid() && sources.path(span.file) == path;
  }

  // Of two repairs that touch one place the first one; the other one waits for the next round, if it is then needed.
  static std::vector<Repair> first_of_each_place(std::vector<Repair> repairs) {
    std::vector<Repair> kept;
    for (Repair& repair : repairs) {
      const auto meets = [&](const Repair& other) {
        return std::ranges::any_of(repair.edits, [&](const Edit& edit) {
          return std::ranges::any_of(other.edits, [&](const Edit& one) { return touch(edit, one); });
        });
      };
      if (std::ranges::none_of(kept, meets)) {
        kept.push_back(std::move(repair));
      }
    }
    return kept;
  }

  static std::string repaired(std::string text, const std::vector<Repair>& repairs) {
    std::vector<Edit> edits;
    for (const Repair& repair : repairs) {
      edits.insert(edits.end(), repair.edits.begin(), repair.edits.end());
    }
    std::ranges::sort(edits, [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
    for (const Edit& edit : edits) {
      text.replace(edit.span.begin, edit.span.end - edit.span.begin, edit.text);
    }
    return text;
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

  // The errors that have no sure edit.
  void tell_rest(const std::string& path, int errors) const {
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

int run_fix(const GlobalOptions& options, const FixArgs& args) {
  const Console console(options);
  return Command(options, args, console).run();
}

}  // namespace xrun::cli
