// A cluster of two nodes, for tests of `xrun simulate`.
#pragma once

namespace xrun::testing {

inline constexpr const char* kLabCluster = R"(xgraph 1

cluster lab {
  nodes   = 2
  network = infiniband(200Gbit/s)
  reserve = 1GiB
  node {
    cores  = 4
    memory = 16GiB
  }
}
)";

}  // namespace xrun::testing
