// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/library_test.cpp
#include "tests/support/cuda/fake_driver.h"

#include <atomic>
#include <csignal>
#include <fmt/format.h>
#include <sys/mman.h>

#include "graph/base/check.h"
#include "tests/support/cuda/environment.h"
#include "tests/support/cuda/functions.h"
#include "tests/support/cuda/state.h"
#include "tests/support/sanitized.h"

namespace xrun::cuda::fake {

namespace {

// Addresses of GPU memory that are closed for the host.
constexpr uint64_t kReserved = uint64_t{64} << 30;
constexpr uint64_t kPage = 4096;

std::atomic<State*> active{nullptr};
std::atomic<uint64_t> states{0};  // number of states that were created
struct sigaction earlier_action;

// The fake driver of a program that has loaded it as a library. It prints its faults when the program ends.
class LibraryDriver {
 public:
  LibraryDriver() : driver_(settings_of_environment()) {}
  ~LibraryDriver() {
    for (const Fault& fault : driver_.faults()) {
      fmt::print(stderr, "fake driver: {}\n", fault.print());
    }
  }
  LibraryDriver(const LibraryDriver&) = delete;
  LibraryDriver& operator=(const LibraryDriver&) = delete;

 private:
  FakeDriver driver_;
};

// Notes an access of the host to memory that is closed for it, and opens the page. After another fault, the earlier
// handler of the signal is set, which usually ends the process.
void on_segmentation_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  State* const state = active.load();
  if (state != nullptr && state->note_host_access(info->si_addr)) {
    return;
  }
  sigaction(SIGSEGV, &earlier_action, nullptr);  // the processor repeats the access
}

}  // namespace

// A handler of signals must not allocate memory, so report_host_accesses describes the fault later.
bool State::note_host_access(void* address) {
  const Lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock() || noted_count == noted.size()) {
    return false;
  }
  const auto gpu_address = reinterpret_cast<CUdeviceptr>(address);
  const bool opened =
      gpu_address - ptx::kGlobalBase < reserved
          ? mprotect(reinterpret_cast<void*>(gpu_address / kPage * kPage), kPage, PROT_READ | PROT_WRITE) == 0
          : pinned.open(address);
  if (opened) {
    noted[noted_count++] = address;
  }
  return opened;
}

void State::report_host_accesses() {
  for (size_t i = 0; i < noted_count; ++i) {
    Fault fault{.kind = FaultKind::kHostAccess,
                .call = "the host",
                .stream = "",
                .kernel = "",
                .buffer = place(reinterpret_cast<CUdeviceptr>(noted[i])),
                .cause = "only kernels and copies access memory of a GPU"};
    if (const PinnedBuffer* const buffer = pinned.find(noted[i], 1); buffer != nullptr) {
      fault.buffer = buffer->place(noted[i]);
      for (const auto& use : buffer->uses) {
        if (use->begin <= noted[i] && noted[i] < use->begin + use->bytes) {
          fault.cause = "the host has not waited for " + use->what;
        }
      }
    }
    report(std::move(fault));
  }
  noted_count = 0;
}

State::State(Settings given)
    : number(++states), settings(std::move(given)), random(settings.seed), retained(settings.gpus) {
  XRUN_CHECK(active.exchange(this) == nullptr, "another fake driver exists");
  // Sanitizers keep their own records at these addresses.
  void* const begin = reinterpret_cast<void*>(ptx::kGlobalBase);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (!xrun::testing::kSanitized && mmap(begin, kReserved, PROT_NONE, flags, -1, 0) == begin) {
    reserved = kReserved;
  }
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &earlier_action);
  if (settings.background) {
    thread_ = std::thread([this] { run_in_background(); });
  }
}

State::~State() {
  end_background();
  sigaction(SIGSEGV, &earlier_action, nullptr);
  if (reserved != 0) {
    munmap(reinterpret_cast<void*>(ptx::kGlobalBase), reserved);
  }
  active = nullptr;
}

State& State::current() {
  if (active.load() == nullptr) {
    static const LibraryDriver library;
  }
  return *active.load();
}

FakeDriver::FakeDriver(Settings settings) : state_(std::make_unique<State>(std::move(settings))) {}

FakeDriver::~FakeDriver() = default;

const DriverTable& FakeDriver::table() const {
  static const DriverTable table = fake_table();
  return table;
}

std::vector<Fault> FakeDriver::faults() const {
  const Lock lock(state_->mutex);
  state_->report_host_accesses();
  return state_->faults;
}

void FakeDriver::name(CUdeviceptr address, const std::string& name) {
  const Lock lock(state_->mutex);
  state_->buffers.at(address).name = name;
  state_->memory.find(address)->name = name;
}

void FakeDriver::name(const void* host_address, const std::string& name) {
  const Lock lock(state_->mutex);
  PinnedBuffer* const buffer = state_->pinned.find(host_address, 1);
  XRUN_CHECK(buffer != nullptr, "no page-locked memory is there");
  buffer->name = name;
}

void FakeDriver::name(CUstream stream, const std::string& name) {
  const Lock lock(state_->mutex);
  reinterpret_cast<Stream*>(stream)->name = name;
}

bool FakeDriver::finds_host_access() const { return state_->reserved != 0; }

}  // namespace xrun::cuda::fake
