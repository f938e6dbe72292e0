#include "runtime/cli/predict/classification.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"

namespace xrun::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostShown = 20;

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string percent(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.2f} %", 100 * share(part, whole));
}

// The number of terminal columns that a text takes. As in fmt, characters from U+3000 take about two columns each.
size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    columns += (byte & 0xC0) == 0x80 ? 0 : byte >= 0xE3 ? 2 : 1;
  }
  return columns;
}

Json share_json(int64_t part, int64_t whole) { return whole == 0 ? Json() : Json(share(part, whole)); }

}  // namespace

std::vector<ClassCount> count_classes(const SourceClasses& source) {
  std::map<int64_t, ClassCount> classes;
  for (const auto& [pair, samples] : source.pairs) {
    const auto& [label, predicted] = pair;
    ClassCount& own = classes[label];
    own.samples += samples;
    if (label == predicted) {
      own.right += samples;
    } else if (samples > own.taken) {
      own.taken_for = predicted;
      own.taken = samples;
    }
    if (predicted >= 0) {
      classes[predicted].predicted += samples;
    }
  }
  std::vector<ClassCount> list;
  for (auto& [label, count] : classes) {
    count.label = label;
    list.push_back(count);
  }
  return list;
}

Classification::Classification(const runtime::Session& session, const std::vector<Ranking>& rankings,
                               const runtime::ClassTables& tables) {
  for (const Ranking& ranking : rankings) {
    parts_.push_back({.reader = runtime::BestReader(session, ranking.from),
                      .head = rankings.size() > 1 ? ranking.name : "",
                      .label = ranking.label,
                      .names = ClassNames{runtime::names_in(tables, ranking.label)}});
  }
}

Status Classification::add(runtime::RowSource& source, int64_t done, int64_t count) {
  if (sources_.empty() || sources_.back().source != source.name()) {
    for (const Part& part : parts_) {
      sources_.push_back({.source = std::string(source.name()), .head = part.head, .names = part.names});
    }
  }
  SourceClasses* classes = &sources_[sources_.size() - parts_.size()];
  for (Part& part : parts_) {
    XRUN_TRY(add(part, source, done, count, *classes++));
  }
  return {};
}

Status Classification::add(Part& part, runtime::RowSource& source, int64_t done, int64_t count,
                           SourceClasses& classes) {
  runtime::BestClasses best;
  XRUN_TRY(part.reader.read(count, best));
  auto broken = source.broken_rows().begin();
  for (int64_t row = 0; row < count; ++row) {
    if (broken != source.broken_rows().end() && broken->row == row) {
      ++broken;
      continue;
    }
    XRUN_ASSIGN(const auto label, source.label(part.label, done + row));
    if (!label) {
      continue;
    }
    const auto at = static_cast<size_t>(row * best.k);
    const float probability = best.probabilities[at];
    const int64_t predicted = probability == probability ? best.classes[at] : -1;  // NaN logits have no best class
    ++classes.pairs[{*label, predicted}];
    if (predicted != *label) {
      classes.wrong.push_back({source.sample_name(done + row), *label, predicted, probability});
    }
  }
  return {};
}

std::string per_class_text(const SourceClasses& source) {
  std::vector<ClassCount> classes = count_classes(source);
  std::erase_if(classes, [](const ClassCount& count) { return count.samples == 0; });
  std::ranges::stable_sort(classes, [](const ClassCount& a, const ClassCount& b) {
    const double x = share(a.right, a.samples);
    const double y = share(b.right, b.samples);
    return x != y ? x < y : a.samples > b.samples;
  });
  const auto all = std::ssize(classes);
  const auto more = all - static_cast<int64_t>(std::min(classes.size(), kMostShown));
  classes.resize(std::min(classes.size(), kMostShown));
  const auto shown = [&](int64_t label) { return label < 0 ? "none" : printable_line(source.names.of(label)); };
  size_t width = 5;
  for (const ClassCount& count : classes) {
    width = std::max(width, std::min<size_t>(columns_of(shown(count.label)), 40));
  }
  std::string out = fmt::format("\n{}{}, {} with samples, the worst first\n", source.source,
                                source.head.empty() ? "" : ", " + printable_line(source.head), counted(all, "class"));
  out += fmt::format("  {:<{}}  {:>9}  {:>9}  {:>9}  {}\n", "class", width, "samples", "accuracy", "precision",
                     "most often taken for");
  for (const ClassCount& count : classes) {
    out +=
        fmt::format("  {:<{}}  {:>9}  {:>9}  {:>9}  {}\n", shown(count.label), width, format_count(count.samples),
                    percent(count.right, count.samples), percent(count.right, count.predicted),
                    count.taken > 0 ? fmt::format("{} ({})", shown(count.taken_for), format_count(count.taken)) : "-");
  }
  return more > 0 ? out + fmt::format("  and {} more: --format json lists all\n", format_count(more)) : out;
}

Json per_class_json(const SourceClasses& source) {
  Json list = Json::array();
  for (const ClassCount& count : count_classes(source)) {
    Json one{{"class", count.label},
             {"name", source.names.of(count.label)},
             {"samples", count.samples},
             {"right", count.right},
             {"predicted", count.predicted},
             {"accuracy", share_json(count.right, count.samples)},
             {"precision", share_json(count.right, count.predicted)},
             {"taken_for", Json()}};
    if (count.taken > 0) {
      one["taken_for"] = {
          {"class", count.taken_for}, {"name", source.names.of(count.taken_for)}, {"samples", count.taken}};
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace xrun::cli
