// The module xrun_onnx.so. Steps:
//   1. Copy inputs, outputs, nodes and small constants into a ModelProto. Shapes and lists of whole numbers are always
//      inside the model, since runtimes need their values to infer shapes.
//   2. Copy the weights into the model, or write them one after the other into a file of their own, each at a multiple
//      of 64 KiB so that runtimes can map them.
//   3. Write the model, and let libonnx check it unless its operators are newer than libonnx.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <system_error>
#include <unistd.h>

#include "graph/base/errors.h"
#include "graph/base/overloaded.h"
#include "runtime/interchange/onnx_module.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kPlace = 64 * kKiB;  // weights in a file of their own begin at multiples of this, after its magic

Error cannot_write(const std::string& path, int error) {
  return world_error("XG0901", {"cannot write {}: {}", path, std::generic_category().message(error)},
                     "free some space, or name another file with -o");
}

// Sizes that are not fixed have names: N for the batch, `image_height` and `image_width` for the sides of pictures
// `image`, which are channels-last.
void set_type(onnx::ValueInfoProto& to, const ops::OnnxValue& from) {
  to.set_name(from.name);
  onnx::TypeProto::Tensor& tensor = *to.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int32_t>(from.type));
  for (size_t i = 0; i < from.dims.size(); ++i) {
    onnx::TensorShapeProto::Dimension& size = *tensor.mutable_shape()->add_dim();
    if (from.dims[i] == kBatch) {
      size.set_dim_param("N");
    } else if (from.dims[i] == ops::kAnySide) {
      size.set_dim_param(from.name + (i == 1 ? "_height" : "_width"));
    } else {
      size.set_dim_value(from.dims[i]);
    }
  }
}

void add_attribute(onnx::NodeProto& to, const ops::OnnxAttribute& from) {
  onnx::AttributeProto& attribute = *to.add_attribute();
  attribute.set_name(from.name);
  std::visit(Overloaded{[&](int64_t value) {
                          attribute.set_type(onnx::AttributeProto::INT);
                          attribute.set_i(value);
                        },
                        [&](float value) {
                          attribute.set_type(onnx::AttributeProto::FLOAT);
                          attribute.set_f(value);
                        },
                        [&](const std::string& value) {
                          attribute.set_type(onnx::AttributeProto::STRING);
                          attribute.set_s(value);
                        },
                        [&](const std::vector<int64_t>& values) {
                          attribute.set_type(onnx::AttributeProto::INTS);
                          attribute.mutable_ints()->Add(values.begin(), values.end());
                        }},
             from.value);
}

void add_nodes(onnx::GraphProto& to, const ops::OnnxGraph& from) {
  for (const ops::OnnxValue& input : from.inputs) {
    set_type(*to.add_input(), input);
  }
  for (const ops::OnnxValue& output : from.outputs) {
    set_type(*to.add_output(), output);
  }
  for (const ops::OnnxNode& node : from.nodes) {
    onnx::NodeProto& made = *to.add_node();
    made.set_op_type(node.op);
    made.set_name(node.name);
    for (const std::string& input : node.inputs) {
      made.add_input(input);
    }
    for (const std::string& output : node.outputs) {
      made.add_output(output);
    }
    for (const ops::OnnxAttribute& attribute : node.attributes) {
      add_attribute(made, attribute);
    }
  }
}

// The file of constants outside of the model.
class DataFile {
 public:
  DataFile(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  ~DataFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  DataFile(const DataFile&) = delete;

  Status open() {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file_ < 0 ? Status(cannot_write(path_, errno)) : write(kOnnxDataMagic.data(), std::ssize(kOnnxDataMagic));
  }

  Status add(const std::byte* values, Bytes bytes, onnx::TensorProto& to) {
    end_ = (end_ + kPlace - 1) / kPlace * kPlace;
    const Bytes begin = end_;
    XRUN_TRY(write(reinterpret_cast<const char*>(values), bytes));
    to.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", name_},
                                     {"offset", std::to_string(begin)},
                                     {"length", std::to_string(bytes)}}) {
      onnx::StringStringEntryProto& entry = *to.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return {};
  }

  Status finish() { return ::fsync(file_) != 0 ? Status(cannot_write(path_, errno)) : Status(); }
  Bytes bytes() const { return end_; }

 private:
  Status write(const char* from, Bytes bytes) {
    for (Bytes done = 0; done < bytes;) {
      const ssize_t wrote = ::pwrite(file_, from + done, static_cast<size_t>(bytes - done), end_ + done);
      if (wrote < 0 && errno != EINTR) {
        return cannot_write(path_, errno);
      }
      done += std::max<ssize_t>(wrote, 0);
    }
    end_ += bytes;
    return {};
  }

  std::string path_;
  std::string name_;
  int file_ = -1;
  Bytes end_ = 0;
};

Status add_constants(onnx::GraphProto& to, const ops::OnnxGraph& from, const ConstantValues& values, StopFlag stop,
                     DataFile* data) {
  std::vector<std::byte> read;
  for (const ops::OnnxTensor& constant : from.constants) {
    XRUN_TRY(check_stop(stop));
    onnx::TensorProto& made = *to.add_initializer();
    made.set_name(constant.name);
    made.set_data_type(static_cast<int32_t>(constant.type()));
    made.mutable_dims()->Add(constant.dims.begin(), constant.dims.end());
    if (!constant.param.valid()) {
      const auto set = [&]<class T>(const std::vector<T>& numbers) {
        made.set_raw_data(numbers.data(), numbers.size() * sizeof(T));
      };
      constant.type() == ops::OnnxType::kFloat    ? set(constant.floats)
      : constant.type() == ops::OnnxType::kDouble ? set(constant.doubles)
                                                  : set(constant.integers);
      continue;
    }
    read.resize(static_cast<size_t>(weight_bytes(constant)));
    values(constant, read.data());
    if (data != nullptr) {
      XRUN_TRY(data->add(read.data(), std::ssize(read), made));
    } else {
      made.set_raw_data(read.data(), read.size());
    }
  }
  return {};
}

Result<Bytes> save(const onnx::ModelProto& model, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out || !model.SerializeToOstream(&out) || !out.flush()) {
    return cannot_write(path, errno != 0 ? errno : EIO);
  }
  return static_cast<Bytes>(model.ByteSizeLong());
}

Status check(const std::string& path) {
  try {
    onnx::checker::check_model(path);
  } catch (const std::exception& fault) {
    return content_error("XG0932", {"libonnx rejects the model: {}", fault.what()},
                         "report this with the model: xrun wrote a wrong file");
  }
  return {};
}

Result<OnnxWritten> write(const ops::OnnxGraph& graph, const ConstantValues& values, const OnnxFile& file) {
  onnx::ModelProto model;
  model.set_ir_version(graph.ir_version());
  model.set_producer_name("xrun");
  onnx::OperatorSetIdProto& operators = *model.add_opset_import();
  operators.set_domain("");
  operators.set_version(graph.opset);
  for (const auto& [key, value] : graph.metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::GraphProto& to = *model.mutable_graph();
  to.set_name(graph.name);
  add_nodes(to, graph);
  Bytes weights = 0;
  for (const ops::OnnxTensor& constant : graph.constants) {
    weights += weight_bytes(constant);
  }
  OnnxWritten written;
  if (weights > file.most_inside) {
    DataFile data(file.path.substr(0, file.path.rfind('/') + 1) + file.data_name, file.data_name);
    XRUN_TRY(data.open());
    XRUN_TRY(add_constants(to, graph, values, file.stop, &data));
    XRUN_TRY(data.finish());
    written.data_bytes = data.bytes();
  } else {
    XRUN_TRY(add_constants(to, graph, values, file.stop, nullptr));
  }
  XRUN_ASSIGN(written.bytes, save(model, file.path));
  if (graph.opset <= ops::kOnnxOpset) {
    XRUN_TRY(check(file.path));
  }
  return written;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] constinit const char xrun_onnx_build[] = XRUN_ONNX_BUILD;
extern "C" [[gnu::visibility("default")]] Result<OnnxWritten> xrun_write_onnx(const ops::OnnxGraph& graph,
                                                                              const ConstantValues& values,
                                                                              const OnnxFile& file) {
  return write(graph, values, file);
}

}  // namespace xrun::runtime
