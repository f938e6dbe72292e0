// Sources: torch/_utils.py, torch/serialization.py and torch/_weights_only_unpickler.py of PyTorch 2.13. Tensors of the
// types that have no storage of their own are written by _rebuild_tensor_v3.
#include "runtime/interchange/weights/torch_values.h"

#include <span>

namespace xrun::runtime {
namespace {

using enum ElementType;

constexpr TorchDtype kDtypes[] = {
    {"float32", "FloatStorage", 4, kF32},
    {"float64", "DoubleStorage", 8, kF64},
    {"float16", "HalfStorage", 2, kF16},
    {"bfloat16", "BFloat16Storage", 2, kBf16},
    {"int64", "LongStorage", 8, kI64},
    {"int32", "IntStorage", 4, kI32},
    {"int16", "ShortStorage", 2, kI16},
    {"int8", "CharStorage", 1, kI8},
    {"uint8", "ByteStorage", 1, kU8},
    {"bool", "BoolStorage", 1, kBool},
    {"uint16", "", 2, kU16},
    {"uint32", "", 4, kU32},
    {"uint64", "", 8, kU64},
    {"float8_e4m3fn", "", 1, kF8E4M3},
    {"float8_e5m2", "", 1, kF8E5M2},
    {"float8_e4m3fnuz", "", 1, kF8E4M3Fnuz},
    {"float8_e5m2fnuz", "", 1, kF8E5M2Fnuz},
    {"float8_e8m0fnu", "", 1, kF8E8M0},
    {"float4_e2m1fn_x2", "", 1},
    {"complex32", "", 4},
    {"complex64", "ComplexFloatStorage", 8},
    {"complex128", "ComplexDoubleStorage", 16},
    {"quint8", "QUInt8Storage", 1},
    {"qint8", "QInt8Storage", 1},
    {"qint32", "QInt32Storage", 4},
    {"quint4x2", "QUInt4x2Storage", 1},
    {"quint2x4", "QUInt2x4Storage", 1},
    {"untyped", "UntypedStorage", 1},  // bytes; only the dtype of a tensor says what they are
};

constexpr PickleGlobal kGlobals[] = {
    {"collections", "OrderedDict", kOrderedDict},
    {"collections", "Counter", kCounter},
    {"builtins", "set", kPlain},
    {"__builtin__", "set", kPlain},
    {"builtins", "complex", kPlain},
    {"__builtin__", "complex", kPlain},
    {"torch", "device", kPlain},
    {"builtins", "tuple", kTuple},
    {"__builtin__", "tuple", kTuple},
    {"torch", "Size", kTorchSize},
    {"torch", "Tensor", kTorchType},
    {"torch.nn.parameter", "Parameter", kTorchType},
    {"torch._utils", "_rebuild_tensor", kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v2", kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v3", kRebuildTyped},
    {"torch._utils", "_rebuild_parameter", kRebuildParameter},
    {"torch._utils", "_rebuild_parameter_with_state", kRebuildParameter},
    {"torch._tensor", "_rebuild_from_type_v2", kRebuildFromType},
};

}  // namespace

std::span<const TorchDtype> torch_dtypes() { return kDtypes; }

void add_torch_globals(std::vector<PickleGlobal>& globals) {
  globals.insert(globals.end(), std::begin(kGlobals), std::end(kGlobals));
  int row = 0;
  for (const TorchDtype& dtype : kDtypes) {
    globals.push_back({"torch", dtype.name, kFirstTorchDtype + row});
    for (const std::string_view module : {"torch", "torch.cuda", "torch.storage"}) {
      if (!dtype.storage.empty()) {
        globals.push_back({module, dtype.storage, kFirstTorchStorage + row});
      }
    }
    ++row;
  }
  // The name in PyTorch 1.12.
  globals.push_back({"torch.storage", "_UntypedStorage", kFirstTorchStorage + row - 1});
}

}  // namespace xrun::runtime
