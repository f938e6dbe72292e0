// The work of streams: the selection of the next operation, and its execution.
// Tests: tests/cuda/wrappers_test.cpp, tests/cuda/planted_orders_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <ranges>
#include <utility>

#include "graph/base/check.h"
#include "tests/support/cuda/state.h"

namespace xrun::cuda::fake {

namespace {

ptx::Generation generation_of(int capability) {
  return capability < 90 ? ptx::Generation::kA100 : capability < 100 ? ptx::Generation::kH100 : ptx::Generation::kB200;
}

}  // namespace

bool State::runnable(const Stream& stream) const {
  if (stream.busy || stream.queue.empty()) {
    return false;
  }
  const Operation& next = stream.queue.front();
  return next.kind != Operation::Kind::kWait || next.recording->ended;
}

// The seed selects one of three policies: any stream, only the work that the call waits for, or all other streams
// first.
Stream* State::choose(Stream* wanted) {
  std::vector<Stream*> others;
  for (Stream& stream : streams) {
    if (runnable(stream)) {
      others.push_back(&stream);
    }
  }
  if (others.empty()) {
    return nullptr;
  }
  const uint64_t way = wanted == nullptr ? 0 : settings.seed % 3;
  if (way == 1) {
    // The chain of streams that wait for each other ends at one that can run, since waits name earlier records.
    Stream* stream = wanted;
    while (stream != nullptr && !runnable(*stream) && !stream->busy && !stream->queue.empty()) {
      stream = stream->queue.front().recording->stream;
    }
    return stream != nullptr && runnable(*stream) ? stream : nullptr;
  }
  if (way == 2 && others.size() > 1) {
    std::erase(others, wanted);
  }
  return others[random() % others.size()];
}

bool State::step(Lock& lock, Stream* wanted) {
  Stream* const stream = choose(wanted);
  if (stream == nullptr) {
    return false;
  }
  run(lock, *stream);
  return true;
}

void State::run_some(Lock& lock) {
  if (settings.seed % 3 == 1) {
    return;
  }
  for (uint64_t left = random() % 3; left > 0 && step(lock, nullptr); --left) {
  }
}

void State::drain(Lock& lock, Stream& stream) {
  while (failed == CUDA_SUCCESS && (!stream.queue.empty() || stream.busy)) {
    if (!step(lock, &stream)) {
      changed_.wait(lock);  // until another thread has run a function of the host
    }
  }
}

void State::drain(Lock& lock, Recording& recording) {
  while (failed == CUDA_SUCCESS && !recording.ended) {
    if (!step(lock, recording.stream)) {
      changed_.wait(lock);
    }
  }
}

void State::drain_all(Lock& lock, int gpu) {
  for (size_t i = 0; i < streams.size(); ++i) {  // an index, since other threads may add streams
    if (streams[i].gpu == gpu) {
      drain(lock, streams[i]);
    }
  }
}

void State::enqueue(Stream& stream, Operation operation) {
  if (std::exchange(staged, false)) {
    report({.kind = FaultKind::kUnordered,
            .call = operation.symbol,
            .stream = stream.name,
            .kernel = "",
            .buffer = "",
            .cause = "a copy from pageable memory may not have ended, and no stream waits for the default stream"});
  }
  operation.enqueued = host;
  stream.queue.push_back(std::move(operation));
  changed_.notify_all();
}

void State::run(Lock& lock, Stream& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  ++operations;
  stream.clock.join(operation.enqueued);
  if (operation.kind == Operation::Kind::kWait) {
    stream.clock.join(operation.recording->clock);
  }
  const Accessor accessor{.actor = stream.actor,
                          .time = stream.clock.advance(stream.actor),
                          .what = operation.kind == Operation::Kind::kKernel
                                      ? fmt::format("`{}` in {}", operation.function->kernel->name, stream.name)
                                      : fmt::format("{} in {}", operation.symbol, stream.name)};
  switch (operation.kind) {
    case Operation::Kind::kCopyIn:
    case Operation::Kind::kCopyOut:
    case Operation::Kind::kCopy:
    case Operation::Kind::kFill:
      run_copy(stream, operation, accessor);
      break;
    case Operation::Kind::kKernel:
      run_kernel(stream, operation, accessor);
      break;
    case Operation::Kind::kCall:
      // The program may wait for effects of the function, which happen after the earlier work of the stream.
      join_host_clock(stream.clock);
      stream.busy = true;
      lock.unlock();
      in_host_function() = true;
      operation.call(operation.user_data);
      in_host_function() = false;
      lock.lock();
      stream.busy = false;
      break;
    case Operation::Kind::kRecord:
      operation.recording->ended = true;
      operation.recording->clock = stream.clock;
      operation.recording->at = operations;
      break;
    case Operation::Kind::kWait:
      break;
  }
  changed_.notify_all();
}

void State::run_copy(Stream& stream, Operation& operation, const Accessor& accessor) {
  using Kind = Operation::Kind;
  const std::string& call = operation.symbol;
  const bool reads_gpu = operation.kind == Kind::kCopyOut || operation.kind == Kind::kCopy;
  const bool writes_gpu = operation.kind != Kind::kCopyOut;
  if ((reads_gpu && check_range(call, &stream, operation.from, operation.bytes) == nullptr) ||
      (writes_gpu && check_range(call, &stream, operation.to, operation.bytes) == nullptr)) {
    return;
  }
  std::vector<std::byte> values(operation.bytes, operation.value);
  if (reads_gpu) {
    record_access(call, &stream, "", operation.from, operation.bytes, false, accessor, stream.clock);
    check_values(call, &stream, operation.from, operation.bytes);
    memory.read(operation.from, values);
  }
  PinnedBuffer* const pages = operation.use ? pinned.find(operation.host, operation.bytes) : nullptr;
  if (pages != nullptr) {
    std::byte* const own = pages->own + (operation.host - pages->begin);
    record_access(call, &stream, "", reinterpret_cast<uint64_t>(operation.host), operation.bytes,
                  operation.kind == Kind::kCopyOut, accessor, stream.clock);
    if (operation.kind == Kind::kCopyOut) {
      std::ranges::copy(values, own);
    } else {
      std::copy_n(own, operation.bytes, values.begin());
    }
    operation.use->time = accessor.time;
  } else if (operation.kind == Kind::kCopyIn) {
    values = std::move(operation.staged);
  } else if (operation.kind == Kind::kCopyOut && !operation.use) {
    std::ranges::copy(values, operation.host);
  }
  if (writes_gpu) {
    record_access(call, &stream, "", operation.to, operation.bytes, true, accessor, stream.clock);
    memory.write(operation.to, values);
  }
}

void State::run_kernel(Stream& stream, Operation& operation, const Accessor& accessor) {
  const std::string& kernel = operation.function->kernel->name;
  const ptx::Options options{.generation = generation_of(settings.capability),
                             .order = ptx::kOrders[random() % ptx::kOrders.size()],
                             .seed = random()};
  const ptx::Execution execution =
      ptx::execute(*operation.function->module->ptx, kernel, operation.launch, memory, options);
  bool reported = false;
  for (const ptx::AccessedRange& range : memory.accessed()) {
    const size_t before = faults.size();
    const auto after = buffers.upper_bound(range.address);
    const GpuBuffer* const buffer = after == buffers.begin() ? nullptr : &std::prev(after)->second;
    if (buffer != nullptr && range.address - buffer->address < buffer->bytes && buffer->gpu != stream.gpu) {
      report({.kind = FaultKind::kContext,
              .call = operation.symbol,
              .stream = stream.name,
              .kernel = kernel,
              .buffer = place(range.address),
              .cause = fmt::format("the kernel runs on GPU {}, and the memory is on GPU {}", stream.gpu, buffer->gpu)});
    }
    record_access(operation.symbol, &stream, kernel, range.address, range.bytes, range.written, accessor, stream.clock);
    if (faults.size() > before) {
      if (reported) {
        faults.resize(before);  // a launch reports one fault
      }
      reported = true;
    }
  }
  if (execution.fault) {
    const ptx::Fault& fault = *execution.fault;
    const auto after = buffers.upper_bound(fault.address);
    const GpuBuffer* const buffer = after == buffers.begin() ? nullptr : &std::prev(after)->second;
    const bool freed = fault.kind == ptx::FaultKind::kOutOfBounds && buffer != nullptr && !buffer->alive &&
                       fault.address - buffer->address < buffer->bytes;
    report({.kind = freed ? FaultKind::kUseAfterFree : FaultKind::kKernel,
            .call = operation.symbol,
            .stream = stream.name,
            .kernel = kernel,
            .buffer = freed ? place(fault.address) : fault.buffer,
            .cause = fault.print()});
    failed = fault.kind == ptx::FaultKind::kOutOfBounds  ? CUDA_ERROR_ILLEGAL_ADDRESS
             : fault.kind == ptx::FaultKind::kMisaligned ? CUDA_ERROR_MISALIGNED_ADDRESS
                                                         : CUDA_ERROR_LAUNCH_FAILED;
    changed_.notify_all();
  }
}

void State::run_in_background() {
  Lock lock(mutex);
  while (!ends_) {
    Stream* wanted = nullptr;
    for (Stream& stream : streams) {
      const auto is_call = [](const Operation& operation) { return operation.kind == Operation::Kind::kCall; };
      wanted = wanted == nullptr && std::ranges::any_of(stream.queue, is_call) ? &stream : wanted;
    }
    if (wanted == nullptr || failed != CUDA_SUCCESS || !step(lock, wanted)) {
      changed_.wait(lock);
    }
  }
}

void State::end_background() {
  {
    const Lock lock(mutex);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

}  // namespace xrun::cuda::fake
