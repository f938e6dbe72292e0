// Verification sets for tests: pictures, and files of pairs as Python's pickle writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/settings/reader_def.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/command.h"

namespace xrun::runtime::testing {

// Whether this version opens verification sets; tests that need one are skipped otherwise.
inline bool reads_pairs() { return data_registry().find_reader("pairs")->availability == Availability::kReady; }

// The pickle (protocol 3) of (list of bytes, list of bools).
inline std::string pickled_pairs(const std::vector<std::string>& pictures, const std::vector<bool>& same) {
  std::string out("\x80\x03](");
  for (const std::string& picture : pictures) {
    out += 'B';  // BINBYTES, with the length as u32
    for (size_t byte = 0; byte < 4; ++byte) {
      out += static_cast<char>(picture.size() >> (8 * byte) & 0xFF);
    }
    out += picture;
  }
  out += "e](";
  for (const bool one : same) {
    out += one ? '\x88' : '\x89';
  }
  return out + "e\x86.";
}

// Writes the folder "train" with pictures of ten classes, which have different greys, and "lfw.bin" with 60 pairs.
inline void write_faces(const xrun::testing::TemporaryDirectory& directory) {
  const auto picture = [](int who, int take) { return png(6 + take % 3, static_cast<uint8_t>(22 * who + 3 * take)); };
  for (int who = 0; who < 10; ++who) {
    const std::string folder = "train/p" + std::to_string(who);
    std::filesystem::create_directories(directory.path() + "/" + folder);
    for (int take = 0; take < 8; ++take) {
      directory.write(folder + "/" + std::to_string(take) + ".png", picture(who, take));
    }
  }
  std::vector<std::string> pictures;
  std::vector<bool> same;
  for (int pair = 0; pair < 60; ++pair) {
    const int who = pair % 10;
    same.push_back(pair % 3 != 0);
    pictures.push_back(picture(who, pair % 4));
    pictures.push_back(picture(same.back() ? who : (who + 1 + pair % 5) % 10, 7 - pair % 4));
  }
  directory.write("lfw.bin", pickled_pairs(pictures, same));
}

// A model of the pictures; `eval` has these metrics.
inline std::string face_model(const std::string& source, const std::string& metrics) {
  return R"(xgraph 1

model face {
  input image: f32[N, 1, 6, 6]

  feature = image -> conv(8, 3) -> relu -> flatten -> linear(8) -> bn
  output feature

  head id = cosine_classifier(feature, 10)
}

data faces {
  source train = folder("train")
)" + source +
         R"(
  image = file -> decode(6, channels=1) -> random_flip -> normalize(mean=127.5, std=127.5)
}

train arc {
  batch     = 16
  norm_rows = 4
  epochs    = 2
  loss      = arcface(id, label, margin=0.2, scale=16)
  optimizer = adamw
  lr        = 3e-3
)" + metrics +
         "}\n";
}

inline const std::string kPairSource = "  source lfw   = pairs(\"lfw.bin\")\n";
// `seen` also measures labels, which the pairs do not have.
inline const std::string kPairMetrics = R"(
  eval {
    lfw  = verification(lfw, feature)
    seen = accuracy(id, label, source=train)
  }
  checkpoint {
    best = highest(lfw)
  }
  stop_when = lfw >= 100.5%
)";

// Writes lists as IJB-C has them: two templates of each class of "train", with four pictures from three media, and
// pairs of them, first those of one class.
inline void write_templates(const xrun::testing::TemporaryDirectory& directory) {
  std::string pictures;
  std::string pairs;
  for (int who = 0; who < 10; ++who) {
    for (int take = 0; take < 8; ++take) {
      pictures += "train/p" + std::to_string(who) + "/" + std::to_string(take) + ".png " +
                  std::to_string(100 + 2 * who + take % 2) + " " + std::to_string(1000 + 8 * who + take / 3) + "\n";
    }
    pairs += std::to_string(100 + 2 * who) + " " + std::to_string(101 + 2 * who) + " 1\n";
  }
  for (int who = 0; who < 10; ++who) {
    for (int other = 1; other <= 8; ++other) {
      pairs += std::to_string(100 + 2 * who) + " " + std::to_string(101 + 2 * ((who + other) % 10)) + " 0\n";
    }
  }
  directory.write("t.txt", pictures);
  directory.write("pairs.txt", pairs);
}

inline const std::string kTemplateSource = "  source ijbc  = pairs(\"pairs.txt\", templates=\"t.txt\")\n";
inline const std::string kTemplateMetrics = R"(
  eval {
    ijbc = verification(ijbc, feature, folds=1)
    seen = accuracy(id, label, source=train)
  }
)";

}  // namespace xrun::runtime::testing
