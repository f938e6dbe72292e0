// Cases in which a library would abort the process.
#include "runtime/cli/library_faults.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <mutex>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/sanitized.h"

namespace xrun::testing {
namespace {

// Makes every later request for memory fail.
void use_up_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = 1;
  ::setrlimit(RLIMIT_AS, &limit);
  for (size_t size = size_t{1} << 20; size >= 16; size /= 2) {
    for (void* volatile taken = std::malloc(size); taken != nullptr;) {
      taken = std::malloc(size);
    }
  }
}

// std::call_once calls its function through pthread_once, so the exception passes a function of glibc.
int catch_through_glibc() {
  std::once_flag once;
  try {
    std::call_once(once, [] { throw std::bad_alloc(); });
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return 1;
}

TEST(LibraryFaultsDeathTest, AnExceptionPassesGlibcWithoutMemory) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers cannot run with a limited address space";
  }
  const auto run = [] {
    cli::report_library_faults();
    use_up_memory();
    ::_exit(catch_through_glibc());
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace xrun::testing
