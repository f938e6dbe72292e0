// Tests: tests/runtime/data/readers/webdataset/webdataset_test.cpp
#include "runtime/data/readers/webdataset/sample_member.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/data/readers/encoded_file.h"
#include "runtime/data/readers/webdataset/shard_samples.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

constexpr std::string_view kAnyPicture = "image";

// The extension of a member with its position in the archive.
struct Extension {
  std::string name;
  TarMember member;

  bool is_picture() const { return has_picture_extension("x." + name); }
  bool is_plain() const { return name.find('.') == std::string::npos; }
};

std::string list_of(const std::vector<Extension>& members) {
  std::string names;
  for (const Extension& one : members) {
    names += (names.empty() ? "" : ", ") + one.name;
  }
  return names;
}

// Compares the label of a `.cls` member with the one that was seen.
Status check_label(TarBytes& bytes, const SeenSample& sample, const TarMember& member) {
  std::optional<int64_t> label;
  if (member.size <= kMostLabelBytes) {
    XRUN_ASSIGN(const auto content, bytes.at(member.offset, member.size));
    label = parse_label(content);
  }
  return label.value_or(SampleLabels::kBroken) == sample.label ? Status() : sample_changed(sample);
}

Error bad_label(TarBytes& bytes, const TarMember& member) {
  const auto content = bytes.at(member.offset, std::min(member.size, kMostLabelBytes));
  if (!content.ok()) {
    return content.error();
  }
  const std::string text(reinterpret_cast<const char*>(content->data()), content->size());
  return broken_sample(fmt::format("`{}` holds \"{}\", which is not a whole number", member.name, text));
}

// Reads the headers of all members of a sample.
Result<std::vector<Extension>> members_of(TarBytes& bytes, const SeenSample& sample) {
  TarReader tar(bytes, sample.path, sample.begin);
  std::vector<Extension> members;
  TarMember member;
  for (std::string key;;) {
    XRUN_ASSIGN(const bool more, tar.next(member));
    if (!more) {
      return members.empty() ? Result<std::vector<Extension>>(sample_changed(sample)) : std::move(members);
    }
    auto name = member.kind == TarMember::Kind::kFile ? split_name(member.name) : std::nullopt;
    if (!name) {
      continue;
    }
    if (!members.empty() && name->key != key) {
      return sample_changed(sample);
    }
    key = name->key;
    members.push_back({std::move(name->extension), member});
  }
}

// The picture of a sample, whatever its extension is.
Result<TarMember> picture_of(const std::vector<Extension>& members) {
  std::vector<Extension> pictures;
  std::ranges::copy_if(members, std::back_inserter(pictures), &Extension::is_picture);
  if (std::ranges::any_of(pictures, &Extension::is_plain)) {
    std::erase_if(pictures, [](const Extension& one) { return !one.is_plain(); });
  }
  if (pictures.empty()) {
    return content_error("XG0412", {"has no picture; its members are {}", list_of(members)},
                         "add the member, or raise `max_bad`");
  }
  if (pictures.size() > 1) {
    return content_error("XG0412", {"has several pictures: {}", list_of(pictures)},
                         {"name one of them in the binding instead of `image`: {} -> decode(...)", pictures[0].name});
  }
  return pictures[0].member;
}

}  // namespace

Error sample_changed(const SeenSample& sample) {
  return content_error("XG0441",
                       {"{}: sample {} differs from the index of the shard, or the shard has changed while it was in "
                        "use",
                        sample.path, sample.number},
                       "write its index again: xrun data index --all PATH");
}

Result<std::string> key_of(TarBytes& bytes, const SeenSample& sample) {
  TarReader tar(bytes, sample.path, sample.begin);
  TarMember member;
  XRUN_ASSIGN(const bool found, tar.next(member));
  const auto name = found ? split_name(member.name) : std::nullopt;
  return name ? Result<std::string>(std::string(name->key)) : sample_changed(sample);
}

Result<TarMember> find_member(TarBytes& bytes, const SeenSample& sample, std::string_view field) {
  XRUN_ASSIGN(const auto members, members_of(bytes, sample));
  const auto label = std::ranges::find(members, kLabelExtension, &Extension::name);
  if (label != members.end()) {
    XRUN_TRY(check_label(bytes, sample, label->member));
    if (field == kLabelExtension) {
      return bad_label(bytes, label->member);
    }
  }
  const auto exact = std::ranges::find(members, field, &Extension::name);
  if (exact != members.end()) {
    return exact->member;
  }
  if (field == kAnyPicture) {
    return picture_of(members);
  }
  const bool has_picture = field != kLabelExtension && std::ranges::any_of(members, &Extension::is_picture);
  return content_error(
      "XG0412", {"has no member `{}`; its members are {}", field, list_of(members)},
      has_picture ? "bind `image`, which is the picture of a sample whatever its extension is, or raise `max_bad`"
                  : "add the member, or raise `max_bad`");
}

}  // namespace xrun::runtime
