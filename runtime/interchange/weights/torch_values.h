// The functions and types of PyTorch in pickles of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle.h"
#include "runtime/interchange/weights/element_type.h"

namespace xrun::runtime {

// The meanings of functions, after those of NumPy (numpy_values.h).
enum TorchMeaning : int {
  kOrderedDict = 100,
  kCounter,
  kPlain,                   // a value that is not a tensor: set, complex, torch.device
  kTuple,                   // tuple(values): how PaddlePaddle writes a tensor, (name, array)
  kTorchSize,               // torch.Size((2, 3))
  kTorchType,               // Tensor, Parameter
  kRebuildTensor,           // (storage, offset, size, stride, ...)
  kRebuildTyped,            // _rebuild_tensor_v3: likewise, with the dtype at index 6
  kRebuildParameter,        // (tensor, ...)
  kRebuildFromType,         // (function, type, arguments of the function, state)
  kFirstTorchDtype = 1000,  // dtypes and types of storages: plus the index of their row in torch_dtypes()
  kFirstTorchStorage = 2000,
};

struct TorchDtype {
  std::string_view name;              // "float32"
  std::string_view storage;           // "FloatStorage"; empty: tensors of the type have an UntypedStorage
  Bytes bytes = 1;                    // size of an element
  std::optional<ElementType> type{};  // nothing: not a type of numbers that are read
};

std::span<const TorchDtype> torch_dtypes();

// Adds the functions and types to the globals that a pickle may name.
void add_torch_globals(std::vector<PickleGlobal>& globals);

}  // namespace xrun::runtime
