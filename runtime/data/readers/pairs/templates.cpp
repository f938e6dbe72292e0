#include "runtime/data/readers/pairs/templates.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "graph/base/counted.h"
#include "graph/base/utf8.h"
#include "graph/settings/pair_fields.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/pairs/pairs.h"
#include "runtime/data/readers/pairs/template_set.h"

namespace xrun::runtime {
namespace {

class TemplatePictures final : public Reader {
 public:
  TemplatePictures(std::string list, std::string root, TemplateSet set)
      : list_(std::move(list)),
        root_(std::move(root)),
        set_(std::move(set)),
        same_(std::ranges::count(set_.pairs.pairs, 1U, [](TemplatePairs::Pair pair) { return pair.same; })),
        fields_{{"jpeg", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true},
                {std::string(kTemplateField), {.dtype = DType::kI64, .dims = {kBatch}}},
                {"file", {.dtype = DType::kU8, .dims = {kBatch, 0}}, true}} {}

  int64_t samples() const override { return std::ssize(set_.pairs.samples); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 0; }
  bool has_labels() const override { return false; }
  std::string class_name(int64_t) const override { return ""; }
  const TemplatePairs* templates() const override { return &set_.pairs; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const auto at = static_cast<size_t>(sample);
    if (field == 1) {
      out.set_integer(DType::kI64, set_.pairs.samples[at].of_template);
      return {};
    }
    return read_encoded(resolve_path(root_, set_.path_of(at)), false, out);
  }
  std::string sample_name(int64_t sample) const override {
    const auto at = static_cast<size_t>(sample);
    return fmt::format("{} template {} ({})", std::filesystem::path(list_).filename().string(),
                       printable_line(set_.names[set_.pairs.samples[at].of_template]),
                       printable_line(set_.path_of(at)));
  }
  std::string describe() const override {
    return fmt::format("pairs: {} of {}, {} of the same person; {}", counted(std::ssize(set_.pairs.pairs), "pair"),
                       counted(set_.pairs.templates, "template"), format_count(same_), counted(samples(), "picture"));
  }
  std::vector<Error> warnings() const override { return warn_of_one_kind(same_, std::ssize(set_.pairs.pairs)); }
  Bytes memory() const override { return set_.memory(); }

 private:
  std::string list_;
  std::string root_;
  TemplateSet set_;
  int64_t same_;
  std::vector<Field> fields_;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_templates(const SourceSpec& spec, Bytes most_memory, StopFlag stop) {
  const Attrs& args = spec.reader.args;
  std::string list = resolve_path(spec.directory, args.text("templates"));
  XRUN_ASSIGN(TemplateSet set,
              read_template_set(list, resolve_path(spec.directory, args.text("path")), most_memory, stop));
  const std::string given = args.has("root") ? args.text("root") : "";
  std::string root =
      given.empty() ? std::filesystem::path(list).parent_path().string() : resolve_path(spec.directory, given);
  XRUN_TRY(check_some_exist(list, std::ssize(set.pairs.samples), [&](int64_t sample) {
    return resolve_path(root, set.path_of(static_cast<size_t>(sample)));
  }));
  return std::unique_ptr<Reader>(std::make_unique<TemplatePictures>(std::move(list), std::move(root), std::move(set)));
}

}  // namespace xrun::runtime
