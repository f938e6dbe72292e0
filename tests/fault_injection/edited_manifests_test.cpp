// Manifests that were edited and got a new valid digest. Each is rejected, or the run resumes with the weights and from
// the step that were saved.
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/base/xxh128.h"
#include "tests/fault_injection/runs.h"
#include "tests/runtime/checkpoint/checkpoint_model.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;
using Random = std::mt19937_64;
using testing::CheckpointModel;

constexpr int64_t kEdits = 10'000;

// Collects all values of a document, including its lists and objects.
void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (auto& item : value) {
      collect(item, all);
    }
  }
}

Json& one_of(const std::vector<Json*>& all, Random& random) { return *all[random() % all.size()]; }

void edit_number(Json& value, Random& random) {
  static const std::vector<Json> far{-1,
                                     0,
                                     1,
                                     3,
                                     1'000'000,
                                     std::numeric_limits<int64_t>::max(),
                                     std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<uint64_t>::max(),
                                     0.5,
                                     -0.0,
                                     1e-308,
                                     1e308,
                                     "7",
                                     true,
                                     nullptr,
                                     Json::array(),
                                     Json::object()};
  if (random() % 2 == 0 && value.is_number_integer()) {
    value = value.get<int64_t>() + static_cast<int64_t>(random() % 5) - 2;
  } else {
    value = far[random() % far.size()];
  }
}

void edit_text(Json& value, Random& random) {
  std::string text = value.get<std::string>();
  static const std::vector<std::string> others{"",
                                               "..",
                                               "/etc/passwd",
                                               "../latest",
                                               "manifest.json",
                                               "model.json",
                                               "trunk.safetensors",
                                               "head.id.r0000000000.safetensors",
                                               std::string(32, '0'),
                                               "\n",
                                               "\x1b[2J",
                                               std::string(4096, 'x'),
                                               "\xff"};
  const size_t at = text.empty() ? 0 : random() % text.size();
  switch (random() % 4) {
    case 0:
      text = others[random() % others.size()];
      break;
    case 1:
      text = text.substr(0, at);
      break;
    case 2:
      text += text;
      break;
    default:
      if (!text.empty()) {
        text[at] = static_cast<char>('0' + random() % 75);
      }
  }
  value = text;
}

void edit_list(Json& list, Random& random) {
  if (list.empty()) {
    list.push_back(random() % 2 == 0 ? Json("text") : Json(Json::object()));
    return;
  }
  const size_t a = random() % list.size();
  const size_t b = random() % list.size();
  switch (random() % 4) {
    case 0:
      list.erase(a);
      break;
    case 1:
      list.push_back(Json(list[a]));
      break;
    case 2:
      std::swap(list[a], list[b]);
      break;
    default:  // exchanges one field of two entries, such as their digests
      if (list[a].is_object() && list[b].is_object() && !list[a].empty()) {
        const std::string key =
            std::next(list[a].begin(), static_cast<std::ptrdiff_t>(random() % list[a].size())).key();
        std::swap(list[a][key], list[b][key]);
      }
  }
}

void edit_object(Json& object, Random& random) {
  if (object.empty() || random() % 4 == 0) {
    object["more"] = 1;
    return;
  }
  const auto at = std::next(object.begin(), static_cast<std::ptrdiff_t>(random() % object.size()));
  if (random() % 2 == 0) {
    object.erase(at.key());
  } else {
    const Json taken = at.value();
    object[std::next(object.begin(), static_cast<std::ptrdiff_t>(random() % object.size())).key()] = taken;
  }
}

void edit(Json& manifest, Random& random) {
  std::vector<Json*> all;
  collect(manifest, all);
  Json& value = one_of(all, random);
  if (value.is_number()) {
    edit_number(value, random);
  } else if (value.is_string()) {
    edit_text(value, random);
  } else if (value.is_boolean()) {
    value = random() % 2 == 0 ? Json(!value.get<bool>()) : Json(1);
  } else if (value.is_array()) {
    edit_list(value, random);
  } else if (value.is_object()) {
    edit_object(value, random);
  }
}

std::string signed_again(Json manifest) {
  const auto text_of = [&] { return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  if (manifest.is_object()) {
    manifest["digest"] = "";
    const std::string text = text_of();
    manifest["digest"] = xxh128(std::as_bytes(std::span(text)));
  }
  return text_of();
}

using EditedManifests = testing::CheckpointDirectory;

TEST_F(EditedManifests, AreRefusedOrGiveTheSameResult) {
  CheckpointModel model(2);
  model.fill(1);
  CheckpointOptions with = options();
  with.batch = 64;
  with.libraries = {{"onednn", "2.6.3"}, {"tbb", "2021.8"}};
  ASSERT_TRUE(store(with)->save(model.state(), 5, 320).ok());
  {
    auto run = store(with);
    ASSERT_TRUE(run->remember({{.metric = "accuracy", .keep = 2, .best = {{5, 0.75}}}}).ok());
    ASSERT_TRUE(run->save(model.state(), 10, 640).ok());
  }
  const auto expected = model.contents();
  const std::string path = root_ + "/step-000010/manifest.json";
  const std::string good = read(path);
  const Json parsed = Json::parse(good);
  ASSERT_EQ(signed_again(parsed), good);
  const int64_t edits = xrun::testing::fault_runs(300, kEdits);
  const uint64_t seed = xrun::testing::fault_seed();
  int64_t refused = 0;
  int64_t accepted = 0;
  for (int64_t i = 0; i < edits; ++i) {
    Random random(seed + static_cast<uint64_t>(i));
    Json edited = parsed;
    for (uint64_t more = 0; more <= random() % 3; ++more) {
      edit(edited, random);
    }
    const std::string text = signed_again(edited);
    write(path, text);
    SCOPED_TRACE("edit of seed " + std::to_string(seed + static_cast<uint64_t>(i)) + ":\n" + text);
    CheckpointModel target(1);
    target.fill(99);
    const auto before = target.contents();
    auto made = make_checkpoint_store(with);
    const auto resumed = made.ok() ? (*made)->resume(target.state())
                                   : Result<std::optional<CheckpointStore::Resumed>>(std::move(made).error());
    if (resumed.ok()) {
      ++accepted;
      ASSERT_TRUE(resumed->has_value());
      EXPECT_EQ((*resumed)->step, 10);
      EXPECT_EQ(target.contents(), expected);
    } else {
      ++refused;
      EXPECT_TRUE(resumed.error().code.starts_with("XG07")) << resumed.error().code;
      EXPECT_EQ(target.contents(), before) << "a checkpoint that is refused has changed the state";
    }
    for (const bool json : {false, true}) {
      const auto shown = describe_checkpoint(root_, json);
      EXPECT_TRUE(!shown.ok() || shown->find('\x1b') == std::string::npos);
    }
    ASSERT_TRUE(fs::exists(root_ + "/step-000005/manifest.json")) << "a step that was saved is lost";
    ASSERT_FALSE(HasFailure());
  }
  write(path, good);
  ASSERT_TRUE(load(root_, model.state()).ok());
  EXPECT_GT(refused, accepted);
  EXPECT_GT(accepted, 0);
  std::cout << refused << " refused, " << accepted << " accepted\n";
}

// The sizes in the manifest are added up before any file is opened.
TEST_F(EditedManifests, AreRefusedIfTheSumOfFileSizesIsTooLarge) {
  CheckpointModel model(2);
  model.fill(1);
  ASSERT_TRUE(store(options())->save(model.state(), 5, 320).ok());
  const std::string path = root_ + "/step-000005/manifest.json";
  Json edited = Json::parse(read(path));
  edited["files"][0]["bytes"] = std::numeric_limits<int64_t>::max();
  write(path, signed_again(edited));
  const auto shown = describe_checkpoint(root_, false);
  ASSERT_FALSE(shown.ok());
  EXPECT_EQ(shown.error().code, "XG0710");
  EXPECT_NE(shown.error().message.find("lists more bytes than a file system can hold"), std::string::npos)
      << shown.error().message;
}

}  // namespace
}  // namespace xrun::runtime
