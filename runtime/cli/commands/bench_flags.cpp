#include "runtime/cli/commands/bench_flags.h"

#include <CLI/CLI.hpp>

namespace xrun::cli {
namespace {

void add_head_flags(CLI::App& command, BenchArgs& all) {
  HeadBenchArgs& args = all.head;
  command
      .add_option("--mode", args.mode,
                  "classes of a step: full (all, default), sample (drawn at random) or knn (from lists of the targets)")
      ->check(CLI::IsMember({"full", "sample", "knn"}));
  command
      .add_option("--active", args.active,
                  "with `--mode sample` or `knn`: number of active classes, at least one for each row (a tenth)")
      ->type_name("N");
  command.add_option("--neighbours", args.neighbours,
                     "with `--mode knn`: classes in a list, including the class itself (32)");
  command.add_option("--classes", args.classes, "classes of the head, such as 200K or 1M (1M)")->type_name("N");
  command.add_option("--dim", args.dim, "elements of a feature and of a class row (128)");
  command.add_option("--batch", args.batch, "rows of a step (256)");
  command.add_option("--dtype", args.dtype, "operands of the products: f32 (default) or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}));
  command.add_option("--weights", args.weights, "class rows in memory: f32 (default), bf16 or fp8")
      ->check(CLI::IsMember({"f32", "bf16", "fp8"}));
  command.add_option("--momentum", args.momentum, "momentum of SGD: none (default), f32 or bf16")
      ->check(CLI::IsMember({"none", "f32", "bf16"}));
  command.add_flag("--cosine", args.cosine, "use cosines times 64 as logits");
  command.add_option("--margin", args.margin,
                     "with `--cosine`: angle in radians that is added to that of the target (ArcFace)");
  command.add_option("--kept", args.kept, "share of the logits that are kept for the backward sweep, from 0 to 1 (1)");
  command.add_option("--shards", args.shards, "shards of the head, computed one after the other (1)");
  command.add_option("--rounds", args.rounds, "timed steps, after one step of warm-up (5)");
}

void add_knn_flags(CLI::App& command, BenchArgs& all) {
  KnnBenchArgs& args = all.knn;
  command.add_option("--classes", args.classes, "classes of the graph, such as 100K or 1M (100K)")->type_name("N");
  command.add_option("--dim", args.dim, "elements of a class row (128)");
  command.add_option("--neighbours", args.neighbours, "classes in a list, including the class itself (32)");
  command.add_flag("--approximate", args.approximate, "compare a class only with the classes of its nearest cells");
  command.add_option("--probes", args.probes, "with `--approximate`: number of nearest cells (16)");
  command.add_option("--rows", args.rows, "class rows: random (default), or tree (the prototypes of `sku_tree`)")
      ->check(CLI::IsMember({"random", "tree"}));
  command.add_option("--rounds", args.rounds, "timed builds (3)");
}

void add_comm_flags(CLI::App& command, BenchArgs& all) {
  CommBenchArgs& args = all.comm;
  command.add_option("--mib", args.mib, "size of the array on every device, in MiB (64)");
  command.add_option("--rounds", args.rounds, "timed rounds of each exchange (9)");
  command.add_flag("--messages", args.messages, "ranks of one host use messages, as ranks of two hosts do");
}

void add_jit_flags(CLI::App& command, BenchArgs& all) {
  command.add_option("--rounds", all.jit.rounds, "measurements of each function; the median counts (5)");
}

void add_data_flags(CLI::App& command, BenchArgs& all) {
  DataBenchArgs& args = all.data;
  command.add_option("FILE", args.file, "a model file with `data`")->required();
  command.add_option("--source", args.source, "the source whose samples are read (train)")->type_name("NAME");
  command.add_option("--samples", args.samples, "samples of a round (1000)");
  command.add_option("--rounds", args.rounds, "timed rounds, after one round of warm-up; the median counts (5)");
}

constexpr BenchmarkEntry kBenchmarks[] = {
    {"head", "a training step of a sharded head, compared with the limits of this machine", add_head_flags},
    {"knn", "the build of the graph of nearest classes, compared with this machine's matrix products", add_knn_flags},
    {"comm", "an all-gather and a reduce-scatter between devices, also of several processes", add_comm_flags},
    {"jit", "compiled functions and updates, compared with built-in kernels", add_jit_flags},
    {"data", "reading, decoding and augmenting samples of a model file, part by part, and the loader", add_data_flags},
};

}  // namespace

std::span<const BenchmarkEntry> benchmarks() { return kBenchmarks; }

void add_calibration_flags(CLI::App& bench, CalibrationArgs& args, std::function<void()> chosen) {
  bench.add_flag("--calibrate", args.wanted,
                 "measure this machine for `xrun plan --cluster FILE`, in about two minutes");
  bench.add_option("-o,--output", args.output, "with `--calibrate`: the cluster file to write")->type_name("FILE");
  bench.add_option("--repeat", args.rounds, "with `--calibrate`: measurements of each figure (2)");
  bench.require_subcommand(0, 1);
  bench.parse_complete_callback([&bench, &args, chosen = std::move(chosen)] {
    const bool alone = bench.get_subcommands().empty();
    if (alone && !args.wanted) {
      throw CLI::RequiredError("A subcommand");
    }
    if (!alone && args.wanted) {
      throw CLI::ExcludesError("--calibrate", bench.get_subcommands()[0]->get_name());
    }
    if (alone) {
      chosen();
    }
  });
}

}  // namespace xrun::cli
