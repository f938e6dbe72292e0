// MPI's own all-gather and reduce-scatter of f32 arrays, for comparison with `xrun bench comm`
// (tests/bench/compare_collectives.py):  mpirun -n 2 mpi_collectives MIB ROUNDS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t size = static_cast<size_t>(std::atol(words[1])) * 1024 * 1024 / sizeof(float);
  const int share = static_cast<int>(size / static_cast<size_t>(ranks));
  std::vector<float> from(size, 1.0F);
  std::vector<float> to(size, 0.0F);
  const std::vector<int> shares(static_cast<size_t>(ranks), share);
  const auto run = [&](bool gather) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (gather) {
      MPI_Allgather(from.data(), share, MPI_FLOAT, to.data(), share, MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      MPI_Reduce_scatter(from.data(), to.data(), shares.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - begin;
  };
  for (const bool gather : {true, false}) {
    std::vector<double> times;
    run(gather);
    for (int round = std::atoi(words[2]); round > 0; --round) {
      times.push_back(run(gather));
    }
    std::sort(times.begin(), times.end());
    if (rank == 0) {
      std::printf("%s %.9f\n", gather ? "all_gather" : "reduce_scatter", times[times.size() / 2]);
    }
  }
  MPI_Finalize();
}
