#include "runtime/cli/weight_flags.h"

namespace xrun::cli {

void add_export_flags(CLI::App& command, ExportArgs& args) {
  command.add_option("file", args.file, "model file; without one: the model that the checkpoint holds")
      ->required()
      ->type_name("[FILE]");
  command.add_option("checkpoint", args.checkpoint, "a step directory, its parent, or `latest`")->type_name("CKPT");
  command.add_option("-o,--output", args.output, "the file to write: model.onnx or model.safetensors")
      ->required()
      ->type_name("FILE");
  command.add_option("--only", args.outputs, "the outputs of the model to export (default: all)")->type_name("OUTPUT");
  command.add_option("--with-head", args.heads, "also export the logits of a head, or its weights")->type_name("HEAD");
  command
      .add_option("--topk", args.topk,
                  "with `--with-head`: export the best classes and their logits instead of all logits")
      ->check(CLI::Range(1, 1000));
  command.add_flag(
      "--fp8-rows", args.fp8_rows,
      "with `--with-head`: class rows that the model keeps in fp8 stay in fp8, which needs operator set 19");
  command.add_flag("--preprocess", args.preprocess,
                   "also export the stages of the data block: the file takes decoded pictures, or columns of a table");
  command
      .add_option("--python", args.python,
                  "the Python whose onnxruntime checks the exported file (default: python3, if it has onnxruntime)")
      ->type_name("PATH");
  command.add_flag("--anyway", args.anyway,
                   "export although FILE has another model or preprocessing than the checkpoint");
}

void add_import_flags(CLI::App& command, ImportArgs& args) {
  command
      .add_option("files", args.files,
                  "files of weights (.pth, .pt, .pdparams, .safetensors, .onnx); several: one for each rank")
      ->required()
      ->type_name("FILE...");
  command.add_option("--into", args.into, "the model that takes the weights")->required()->type_name("MODEL");
  command.add_option("-o,--output", args.output, "the directory of the checkpoint, such as ckpt/start")
      ->required()
      ->type_name("CKPT");
  command
      .add_option("--names", args.names,
                  "a file with a name table, or the name of a table of xrun (default: the one that fits)")
      ->type_name("FILE");
  command
      .add_option("--at", args.at,
                  "the path of the network in the model, or . for the model itself (default: where most tensors fit)")
      ->type_name("PATH");
  command.add_option("--skip", args.skip, "parts of the model that get initial values instead")->type_name("PATH");
  command.add_flag("--overwrite", args.overwrite, "rename a checkpoint that is at CKPT to CKPT.1 first");
}

}  // namespace xrun::cli
