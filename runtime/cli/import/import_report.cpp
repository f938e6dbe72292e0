// Tests: tests/runtime/cli/import/import_test.cpp
#include "runtime/cli/import/import_report.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/cli/console/console.h"

namespace xrun::cli {
namespace {

using Json = nlohmann::ordered_json;
using runtime::ForeignTensor;

constexpr size_t kFew = 5;

std::string names_text(const std::vector<std::string>& names, bool all) {
  const size_t shown = all ? names.size() : std::min(kFew, names.size());
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == names.size() ? text : fmt::format("{}, and {} more", text, names.size() - shown);
}

std::vector<std::string> foreign_names(const Imported& imported, const std::vector<size_t>& indices) {
  std::vector<std::string> names;
  std::ranges::transform(indices, std::back_inserter(names), [&](size_t i) { return imported.tensors[i].name; });
  return names;
}

std::vector<std::string> missing_names(const Imported& imported) {
  std::vector<std::string> names;
  std::ranges::transform(imported.matched.missing, std::back_inserter(names),
                         [&](size_t i) { return imported.form.tensors[i].name; });
  return names;
}

// One line of the text: what the list is, its length, and its names.
std::string line_of(const char* what, const std::string& count, const std::string& names) {
  return fmt::format("  {:<11}{}{}{}\n", what, count, names.empty() ? "" : ": ", names);
}

std::string place_text(const std::string& place) { return place.empty() ? "" : fmt::format(", in `{}`", place); }

std::string list_text(const Imported& imported, const char* what, const std::vector<size_t>& indices, const char* why,
                      bool all) {
  return indices.empty() ? ""
                         : line_of(what, counted(std::ssize(indices), "tensor") + why,
                                   all ? names_text(foreign_names(imported, indices), true) : "");
}

std::string left_over_text(const Imported& imported, bool all) {
  const auto& left = imported.matched.left_over;
  if (left.empty()) {
    return "";
  }
  std::vector<std::string> names;
  for (const runtime::LeftOver& one : left) {
    const std::string& name = imported.tensors[one.tensor].name;
    names.push_back(all ? fmt::format("{} ({})", name, one.why) : name);
  }
  return line_of("left over", counted(std::ssize(left), "tensor") + " of the file", names_text(names, all));
}

Json json_of(const std::vector<std::string>& names) { return Json(names); }

}  // namespace

std::string import_text(const Imported& imported, const ImportArgs& args, bool all) {
  const runtime::MatchedTensors& matched = imported.matched;
  std::string text = fmt::format("{}   step 0 of `{}`, {}   {}\n", args.output, imported.model,
                                 counted(std::ssize(imported.form.tensors), "tensor"), format_bytes(imported.bytes));
  for (size_t i = 0; i < imported.files.size(); ++i) {
    text += fmt::format("  {}   {}\n", args.files[i], imported.files[i]->format());
  }
  text += line_of("names", imported.table.title + place_text(imported.place), "");
  std::vector<std::string> fits;
  for (const runtime::Fit& one : matched.fits) {
    fits.push_back(fmt::format("{} = {}", imported.form.tensors[one.to].name,
                               fmt::join(foreign_names(imported, one.from), " + ")));
  }
  text += line_of("fits", counted(std::ssize(matched.fits), "tensor"), all ? names_text(fits, true) : "");
  text += list_text(imported, "ignored", matched.ignored, " of the file", all);
  text += list_text(imported, "repeated", matched.repeated, " of later files; those of the first are used", all);
  text += list_text(imported, "skipped", matched.skipped, " of the file", all);
  text += left_over_text(imported, all);
  if (!matched.missing.empty()) {
    text += line_of("missing",
                    fmt::format("{} of the model, with initial values of seed {}",
                                counted(std::ssize(matched.missing), "tensor"), imported.seed),
                    names_text(missing_names(imported), all));
  }
  for (const std::string& note : imported.table.notes) {
    text += line_of("note", note, "");
  }
  return text;
}

std::string import_json(const Imported& imported, const ImportArgs& args) {
  const runtime::MatchedTensors& matched = imported.matched;
  Json files = Json::array();
  for (size_t i = 0; i < imported.files.size(); ++i) {
    files.push_back({{"file", args.files[i]},
                     {"format", imported.files[i]->format()},
                     {"tensors", imported.files[i]->tensors().size()},
                     {"other_entries", imported.files[i]->others()}});
  }
  Json fits = Json::array();
  for (const runtime::Fit& one : matched.fits) {
    fits.push_back({{"tensor", imported.form.tensors[one.to].name}, {"from", foreign_names(imported, one.from)}});
  }
  Json left_over = Json::array();
  for (const runtime::LeftOver& one : matched.left_over) {
    left_over.push_back({{"tensor", imported.tensors[one.tensor].name}, {"why", one.why}});
  }
  return json_line({{"v", 1},
                    {"checkpoint", args.output},
                    {"step", imported.path},
                    {"bytes", imported.bytes},
                    {"files", std::move(files)},
                    {"names", imported.table.name},
                    {"place", imported.place},
                    {"fits", std::move(fits)},
                    {"ignored", json_of(foreign_names(imported, matched.ignored))},
                    {"repeated", json_of(foreign_names(imported, matched.repeated))},
                    {"skipped", json_of(foreign_names(imported, matched.skipped))},
                    {"left_over", std::move(left_over)},
                    {"missing", json_of(missing_names(imported))},
                    {"seed", imported.seed},
                    {"notes", imported.table.notes}});
}

Error misfit_error(const Imported& imported, const ImportArgs& args) {
  constexpr size_t kMostLines = 12;
  const std::vector<std::string>& misfits = imported.matched.misfits;
  Error error = content_error(
      "XG0942",
      {"{} of {} {} not fit {}", counted(std::ssize(misfits), "tensor"), fmt::join(args.files, ", "),
       misfits.size() == 1 ? "does" : "do", args.into},
      "give the model the sizes of the file, or leave parts of the model out: --skip PATH gives them initial values");
  const size_t shown = std::min(misfits.size(), kMostLines);
  error.notes.assign(misfits.begin(), misfits.begin() + static_cast<std::ptrdiff_t>(shown));
  if (shown < misfits.size()) {
    error.notes.push_back(fmt::format("and {} more", misfits.size() - shown));
  }
  return error;
}

}  // namespace xrun::cli
