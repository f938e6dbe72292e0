// Records as MXNet writes them, made without MXNet, for tests of damaged and unusual files.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace xrun::runtime::testing {

inline std::string word(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
inline const std::string kMagicBytes = word(0xced7230a);

// A record in pieces: cut at each magic at a multiple of 4, without these four bytes (dmlc::RecordIOWriter).
inline std::string record_of(const std::string& contents) {
  std::vector<std::string> pieces{""};
  for (size_t at = 0; at < contents.size();) {
    if (contents.compare(at, 4, kMagicBytes) == 0) {
      pieces.emplace_back();
      at += 4;
    } else {
      pieces.back() += contents.substr(at, 4);
      at += 4;
    }
  }
  std::string out;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint32_t kind = pieces.size() == 1 ? 0 : i == 0 ? 1 : i + 1 == pieces.size() ? 3 : 2;
    out += kMagicBytes + word(kind << 29 | static_cast<uint32_t>(pieces[i].size())) + pieces[i];
    out.resize((out.size() + 3) / 4 * 4, '\0');
  }
  return out;
}

// The contents of a record of a picture: with one label in the header, or with a list of several.
inline std::string image_contents(const std::vector<float>& labels, uint64_t id, const std::string& image,
                                  bool as_list = false) {
  std::string out(24, '\0');
  const uint32_t flag = labels.size() == 1 && !as_list ? 0 : static_cast<uint32_t>(labels.size());
  std::memcpy(out.data(), &flag, 4);
  std::memcpy(out.data() + 8, &id, 8);
  if (flag == 0) {
    std::memcpy(out.data() + 4, labels.data(), 4);
  } else {
    out.append(reinterpret_cast<const char*>(labels.data()), labels.size() * 4);
  }
  return out + image;
}
inline std::string image_record(float label, uint64_t id, const std::string& image) {
  return record_of(image_contents({label}, id, image));
}

}  // namespace xrun::runtime::testing
