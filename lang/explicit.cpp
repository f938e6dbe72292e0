// Writes out what a file leaves open, as insertions into its text:
//   1. the default arguments of calls, which the check has recorded (Facts::default_arguments)
//   2. the missing settings of each declaration (complete), with the values of the run if it uses the declaration
//   3. the missing declarations of each `run` (complete_run)
// The insertions are made from the last to the first, so that the positions of the remaining ones stay valid.
#include "lang/explicit.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <vector>

#include "lang/lower/setting_def.h"
#include "lang/lower/settings.h"

namespace xrun::lang {
namespace {

class Writer {
 public:
  Writer(const CheckedFile& checked, const Facts& facts, const SourceMap& sources)
      : checked_(checked), file_(*facts.main), sources_(sources) {
    for (const auto& [name_end, text] : facts.default_arguments()) {
      if (name_end.first == file_.file) {
        add_arguments(name_end.second, text);
      }
    }
  }

  std::string text() {
    for (const Decl& decl : file_.ast.decls) {
      if (decl.kind == DeclKind::kRun) {
        complete_run(decl);
      } else if (has_settings(decl.kind)) {
        complete(decl);
      }
    }
    std::string out(sources_.text(file_.file));
    std::ranges::stable_sort(edits_, [](const Edit& a, const Edit& b) { return a.span.begin > b.span.begin; });
    for (const Edit& edit : edits_) {
      out.insert(edit.span.begin, edit.text);
    }
    return out;
  }

 private:
  void insert(uint32_t at, std::string text) { edits_.push_back({{file_.file, at, at}, std::move(text)}); }

  // Adds arguments to the call whose name ends at `at`: after its arguments, or in new brackets if it has none.
  void add_arguments(uint32_t at, const std::string& arguments) {
    const std::string_view text = sources_.text(file_.file);
    if (at >= text.size() || text[at] != '(') {
      insert(at, "(" + arguments + ")");
      return;
    }
    uint32_t last = at;  // last character inside the brackets that is neither a space nor in a comment
    int depth = 0;
    for (uint32_t i = at; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '#') {
        i = static_cast<uint32_t>(std::min(text.find('\n', i), text.size()));
        continue;
      }
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (depth == 0) {
        break;
      }
      for (const char quote = c; quote == '"' && ++i < text.size() && text[i] != '"';) {
        i += text[i] == '\\' ? 1 : 0;
      }
      last = c == ' ' || c == '\n' ? last : i;
    }
    insert(last + 1, (last == at ? "" : text[last] == ',' ? " " : ", ") + arguments);
  }

  // Settings to add to the file: the settings group (empty: the declaration itself) and the line `key = value` to add.
  using Lines = std::vector<std::pair<std::string, std::string>>;

  void complete(const Decl& decl) {
    const Module& module = checked_.module;
    const bool is_chosen = decl.span == module.train.span || decl.span == module.data.span ||
                           decl.span == module.cluster.span || decl.span == module.schedule.span;
    Diagnostics reported;
    const Settings settings = read_settings({&file_, &decl}, reported);
    const Module plain;
    const Shown shown{is_chosen ? module : plain, checked_.run};
    Lines lines;  // the settings to add to `decl`
    for (const SettingDef& def : all_settings()) {
      if (def.kind != decl.kind || def.is_name() || def.fallback.starts_with("required")) {
        continue;
      }
      if (def.group == "shard HEAD") {
        const SettingNode* shards = settings.root.find("shard");
        for (const SettingNode& head : shards != nullptr ? shards->children : std::vector<SettingNode>()) {
          if (!def.later && head.find(def.key) == nullptr) {
            lines.emplace_back("shard " + head.key, fmt::format("{} = {}", def.key, def.fallback));
          }
        }
        continue;
      }
      const SettingNode* group = def.group.empty() ? &settings.root : settings.root.find(def.group);
      const bool is_written = group != nullptr && group->find(def.key) != nullptr;
      const std::string text = is_written || def.group == "groups PATH" ? "" : def.text(shown);
      // If a value follows from other settings, it is known only for a declaration that runs.
      if (!text.empty() && (is_chosen || text == def.fallback)) {
        lines.emplace_back(def.group, fmt::format("{} = {}", def.key, text));
      }
    }
    write(lines, decl);
  }

  // Adds to a `run` the declarations that it leaves open. The file has only one declaration of such a kind.
  void complete_run(const Decl& decl) {
    Diagnostics reported;
    const Settings settings = read_settings({&file_, &decl}, reported);
    Lines lines;
    for (const SettingDef& def : all_settings()) {
      const std::vector<DeclRef> all = file_.all(kind_of(def.key));
      if (def.kind == DeclKind::kRun && settings.root.find(def.key) == nullptr && all.size() == 1 &&
          all[0].decl->name) {
        lines.emplace_back("", fmt::format("{} = {}", def.key, all[0].decl->name.text));
      }
    }
    write(lines, decl);
  }

  // Adds each line at the end of its settings group. A missing group is added at the end of the declaration.
  void write(const Lines& lines, const Decl& decl) {
    std::vector<std::string> groups;
    for (const auto& [group, line] : lines) {
      if (std::ranges::find(groups, group) == groups.end()) {
        groups.push_back(group);
      }
    }
    // Texts that are inserted at one place end up in reverse order, so the last one is inserted first.
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      std::string text;
      for (const auto& [of, line] : lines) {
        text += of == *group ? line + "\n" : "";
      }
      const uint32_t end = group->empty() ? 0 : end_of(*group, file_.ast[decl.settings]);
      if (end > 0) {
        const uint32_t brace = closing_brace(end);
        insert(brace, (starts_line(brace) ? "" : "\n") + text);
      } else {
        const std::string block = group->empty() ? text : fmt::format("{} {{\n{}}}\n", *group, text);
        insert(closing_brace(decl.span.end), "\n" + block);
      }
    }
  }

  // Whether the byte at `at` is the first on its line, apart from spaces.
  bool starts_line(uint32_t at) const {
    const std::string_view before = sources_.text(file_.file).substr(0, at);
    const size_t last = before.find_last_not_of(' ');
    return last != std::string_view::npos && before[last] == '\n';
  }

  // The end of the braces of a settings group such as "checkpoint" or "shard id"; 0 if the text has no such group.
  uint32_t end_of(std::string_view group, std::span<const Setting> settings) const {
    for (const Setting& one : settings) {
      std::string name = join_path(file_.ast[one.path]);
      std::ranges::replace(name, '.', ' ');
      name += one.name ? " " + std::string(one.name.text) : "";
      if (one.kind != SettingKind::kGroup) {
        continue;
      }
      if (name == group) {
        return one.span.end;
      }
      if (group.starts_with(name + " ")) {
        if (const uint32_t end = end_of(group.substr(name.size() + 1), file_.ast[one.settings]); end > 0) {
          return end;
        }
      }
    }
    return 0;
  }

  uint32_t closing_brace(uint32_t end) const {
    return static_cast<uint32_t>(sources_.text(file_.file).rfind('}', end - 1));
  }

  const CheckedFile& checked_;
  const SourceFile& file_;
  const SourceMap& sources_;
  std::vector<Edit> edits_;
};

}  // namespace

std::string explicit_text(const CheckedFile& checked, const Facts& facts, const SourceMap& sources) {
  return Writer(checked, facts, sources).text();
}

}  // namespace xrun::lang
