// Fuzzes plan files: a file is rejected with a message or loaded as a sound program. The digest is recomputed, since
// otherwise no check after that of the digest would be reached.
#include <openssl/sha.h>

#include "planner/plan_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(data[i]);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(data, size, digest);
  for (const unsigned char byte : digest) {
    bytes.push_back(static_cast<std::byte>(byte));
  }
  const auto plan = xrun::planner::load_plan_bytes(bytes);
  if (plan.ok()) {
    // An accepted plan must be accepted again after it is written.
    const auto again = xrun::planner::load_plan_bytes(xrun::planner::plan_bytes(*plan));
    XRUN_CHECK(again.ok(), "a loaded plan is not loaded again: " + again.error().message);
  }
  return 0;
}
