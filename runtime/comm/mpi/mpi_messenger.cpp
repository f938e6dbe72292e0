// MPI as a messenger: a separate shared module for each of Open MPI and MPICH, which the program loads only if their
// launchers started it (docs/decisions/0022-mpi-is-a-module.md). No other file includes mpi.h.
// Tests: tests/runtime/cluster/mpi_command_test.cpp
#include <chrono>
#include <climits>
// Uses the C interface only: the C++ interface has casts that cause compiler warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <thread>
#include <vector>

#include "runtime/comm/ranks/messenger.h"

namespace xrun::runtime {
namespace {

constexpr int kTag = 1;

std::string words_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  return MPI_Error_string(code, text, &length) == MPI_SUCCESS ? std::string(text, static_cast<size_t>(length))
                                                              : "MPI error " + std::to_string(code);
}

class MpiMessenger final : public Messenger {
 public:
  // Returns an empty text, or the error.
  std::string begin() {
    int provided = 0;
    int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    if (code == MPI_SUCCESS && provided < MPI_THREAD_FUNNELED) {
      return "this MPI does not allow threads other than the one that calls it";
    }
    code = code == MPI_SUCCESS ? MPI_Comm_dup(MPI_COMM_WORLD, &world_) : code;
    code = code == MPI_SUCCESS ? MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN) : code;
    code = code == MPI_SUCCESS ? MPI_Comm_rank(world_, &rank_) : code;
    code = code == MPI_SUCCESS ? MPI_Comm_size(world_, &count_) : code;
    return code == MPI_SUCCESS ? "" : words_of(code);
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }

  int send(int to, const std::byte* data, size_t bytes) override {
    const int number = free_request();
    if (bytes > INT_MAX) {
      error_ = "a message of " + std::to_string(bytes) + " bytes is too long";
    } else if (error_.empty()) {
      check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kTag, world_,
                      &requests_[static_cast<size_t>(number)]));
    }
    return number;
  }

  std::optional<Arrival> arrived() override {
    int here = 0;
    int bytes = 0;
    MPI_Status status;
    if (!error_.empty() || !check(MPI_Improbe(MPI_ANY_SOURCE, kTag, world_, &here, &message_, &status)) || here == 0 ||
        !check(MPI_Get_count(&status, MPI_BYTE, &bytes))) {
      return std::nullopt;
    }
    return Arrival{.from = status.MPI_SOURCE, .bytes = static_cast<size_t>(bytes)};
  }

  int receive(const Arrival& arrival, std::byte* data) override {
    const int number = free_request();
    if (error_.empty()) {
      check(MPI_Imrecv(data, static_cast<int>(arrival.bytes), MPI_BYTE, &message_,
                       &requests_[static_cast<size_t>(number)]));
    }
    return number;
  }

  bool done(int number) override {
    int over = 0;
    if (!error_.empty() || !check(MPI_Test(&requests_[static_cast<size_t>(number)], &over, MPI_STATUS_IGNORE))) {
      return false;
    }
    if (over != 0) {
      free_.push_back(number);
    }
    return over != 0;
  }

  std::string error() const override { return error_; }

  // MPI_Finalize need not wait for all ranks, and with the PMIx of Slurm it does not. A rank that had ended would
  // receive no more messages, and ranks that send to it would wait forever, so this call waits for all ranks first. If
  // a rank dies meanwhile, the watch of ranks (rank_watch.h) ends this process.
  void finish() override {
    MPI_Request all = MPI_REQUEST_NULL;
    int here = 0;
    bool fails = MPI_Ibarrier(world_, &all) != MPI_SUCCESS;
    while (!fails && here == 0) {
      fails = MPI_Test(&all, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS;
      if (here == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a blocking call would occupy a core
      }
    }
    MPI_Comm_free(&world_);
    MPI_Finalize();
  }

 private:
  bool check(int code) {
    if (code != MPI_SUCCESS && error_.empty()) {
      error_ = words_of(code);
    }
    return code == MPI_SUCCESS;
  }

  int free_request() {
    if (free_.empty()) {
      requests_.push_back(MPI_REQUEST_NULL);
      return static_cast<int>(requests_.size()) - 1;
    }
    const int number = free_.back();
    free_.pop_back();
    requests_[static_cast<size_t>(number)] = MPI_REQUEST_NULL;
    return number;
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0;
  int count_ = 1;
  MPI_Message message_ = MPI_MESSAGE_NULL;  // the message that the last call of `arrived` returned
  std::vector<MPI_Request> requests_;       // index: the number of the request
  std::vector<int> free_;
  std::string error_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Messenger* xrun_make_messenger(std::string* error) {
  auto made = std::make_unique<MpiMessenger>();
  *error = made->begin();
  return error->empty() ? made.release() : nullptr;
}

}  // namespace xrun::runtime
