// Fuzzes indices of shards: each shard that is opened is in the folder of the index, and the tensors of an accepted set
// are those of its shards.
#include <cstring>

#include "runtime/interchange/weights/safetensors_weights.h"
#include "runtime/interchange/weights/sharded_weights.h"
#include "tests/fuzz/weights_input.h"

namespace {

using namespace xrun::runtime;

// A file of safetensors with one tensor `w`, u8 [1].
const std::string& shard() {
  static const std::string bytes = [] {
    const std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    std::string made(8, '\0');
    made[0] = static_cast<char>(header.size());
    return made + header + '\x05';
  }();
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const RandomFile index = RandomFile::in_memory(std::as_bytes(std::span(data, size)), "folder/index.json");
  const auto open = [](const std::string& path) {
    XRUN_CHECK(path.starts_with("folder/") && ("/" + path + "/").find("/../") == std::string::npos,
               "shards are in the folder of the index");
    return open_safetensors(xrun::test::file_of_input(reinterpret_cast<const uint8_t*>(shard().data()), shard().size()),
                            nullptr);
  };
  const auto opened = open_shards(index, open, nullptr);
  if (opened.ok()) {
    XRUN_CHECK(opened.value()->tensors().size() == 1, "the shard has one tensor");
  }
  xrun::test::check_weights(opened);
  return 0;
}
