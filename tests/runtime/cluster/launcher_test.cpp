// Detection of launchers by their environment variables, and checks between ranks before a run starts.
#include "runtime/cluster/launcher.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "runtime/cli/job/job.h"

namespace xrun::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Launch> launch_of(const std::map<std::string, std::string>& variables) {
  return find_launch([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

TEST(Launcher, IsDetectedByItsEnvironmentVariables) {
  struct Case {
    std::map<std::string, std::string> variables;
    int count;
    int rank;
    std::vector<Mpi> mpis = {};
  };
  const std::vector<Mpi> open_mpi{Mpi::kOpenMpi};
  const std::vector<Mpi> mpich{Mpi::kMpich};
  const std::vector<Case> cases = {
      {{}, 1, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}}, 4, 3, open_mpi},
      {{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}, 1, 0, open_mpi},
      {{{"SLURM_STEP_NUM_TASKS", "8"}, {"PMIX_RANK", "5"}}, 8, 5, {Mpi::kOpenMpi, Mpi::kMpich}},
      {{{"PMIX_RANK", "2"}}, 0, 2, {Mpi::kOpenMpi, Mpi::kMpich}},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}}, 2, 1, mpich},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"MPI_LOCALRANKID", "0"}}, 1, 0, mpich},
      // Hydra in an allocation of Slurm: srun has started a proxy on each of two nodes.
      {{{"PMI_RANK", "5"},
        {"PMI_SIZE", "8"},
        {"MPI_LOCALRANKID", "1"},
        {"PMIX_RANK", "1"},
        {"SLURM_STEP_NUM_TASKS", "2"}},
       8,
       5,
       mpich},
      // srun --mpi=pmi2
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_STEP_NUM_TASKS", "2"}}, 2, 1, mpich},
      {{{"SLURM_STEP_NUM_TASKS", "1"}}, 1, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "many"}}, 1, 0},
      {{{"OMPI_COMM_WORLD_SIZE", "-2"}}, 1, 0},
  };
  for (const Case& one : cases) {
    const auto launch = launch_of(one.variables);
    ASSERT_TRUE(launch.ok()) << launch.error().message;
    EXPECT_EQ(launch->count, one.count);
    EXPECT_EQ(launch->rank, one.rank);
    EXPECT_EQ(launch->mpis, one.mpis);
  }
}

TEST(Launcher, ProcessesThatCannotFindEachOtherAreRefused) {
  const auto launch = launch_of({{"SLURM_STEP_NUM_TASKS", "8"}});
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.error().code, "XG0832");
  EXPECT_EQ(launch.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(launch.error().help, HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(launch.error().message, HasSubstr("Slurm started 8 processes"));
  const auto second = launch_of({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "1"}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "") << "one of them prints the error";
}

TEST(Launcher, TheFirstOfItsMpisThatIsBuiltIsUsed) {
  const auto with = [](std::vector<Mpi> built) {
    return [built = std::move(built)](Mpi mpi) { return std::ranges::find(built, mpi) != built.end(); };
  };
  const Launch slurm{.count = 2, .rank = 0, .mpis = {Mpi::kOpenMpi, Mpi::kMpich}};
  EXPECT_EQ(*choose_mpi(slurm, with({Mpi::kOpenMpi, Mpi::kMpich})), Mpi::kOpenMpi);
  EXPECT_EQ(*choose_mpi(slurm, with({Mpi::kMpich})), Mpi::kMpich);
  const Launch hydra{.count = 2, .rank = 0, .mpis = {Mpi::kMpich}};
  const auto other = choose_mpi(hydra, with({Mpi::kOpenMpi}));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, "XG0832");
  EXPECT_EQ(other.error().kind, ErrorKind::kWorld);
  EXPECT_EQ(other.error().message,
            "a launcher of MPICH started several processes, but this xrun was built without "
            "MPICH: libxrun_mpich.so is not next to the program");
  EXPECT_EQ(other.error().help,
            "start them with the launcher of Open MPI: `mpirun`, or `srun --mpi=pmix`; or install "
            "libmpich-dev and build again");
  const auto none = choose_mpi(hydra, with({}));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().help, "install libmpich-dev and build again, or start one process");
}

RankFacts facts_of(const std::string& host, int cores, const std::string& cpus, Bytes memory,
                   const std::string& isa = "avx2", const std::string& machine = "") {
  return {.host = host,
          .machine = machine.empty() ? host : machine,
          .cores = cores,
          .cpus = cpus,
          .memory = memory,
          .build = {{"xrun", "1.0"}, {"instruction set", isa}, {"dnnl", "2.7"}}};
}

TEST(JobFacts, ProcessorsAndMemoryOfAHostAreCountedOnce) {
  const std::vector<RankFacts> shared = {facts_of("a", 4, "0,1,2,3", 100), facts_of("a", 4, "0,1,2,3", 90),
                                         facts_of("b", 2, "0,1", 50)};
  EXPECT_EQ(cores_of(shared), 6);
  EXPECT_EQ(memory_of(shared).all, 140);
  EXPECT_EQ(memory_of(shared).least, 50);
  EXPECT_EQ(nodes_of(shared), (std::vector{0, 0, 1}));
  const std::vector<RankFacts> bound = {facts_of("a", 1, "0", 100), facts_of("a", 2, "1,2", 100)};
  EXPECT_EQ(cores_of(bound), 3);
  EXPECT_EQ(memory_of(bound).all, 100);
  // Four network namespaces on two processors, and two containers with a part of these processors each.
  const auto inside = [](const std::string& host, int cores, const std::string& cpus) {
    return facts_of(host, cores, cpus, 100, "avx2", "one machine");
  };
  EXPECT_EQ(cores_of({inside("a", 1, "0"), inside("b", 1, "1"), inside("c", 1, "0"), inside("d", 1, "1")}), 2);
  // Each of the four reports all memory of the machine that they share.
  std::vector<RankFacts> sharing{inside("a", 1, "0"), inside("b", 1, "1"), inside("c", 1, "2"), inside("d", 1, "3")};
  for (RankFacts& one : sharing) {
    one.machine_memory = 100;
  }
  EXPECT_EQ(memory_of(sharing).all, 100);
  EXPECT_EQ(memory_of(sharing).least, 25);
  EXPECT_EQ(cores_of({inside("a", 2, "0,1,2,3,4,5,6,7"), inside("b", 3, "0,1,2,3,4,5,6,7")}), 5);
}

TEST(JobFacts, RanksOfAnotherBuildAreRefusedWithTheDifferences) {
  std::vector<RankFacts> ranks = {facts_of("a", 4, "0", 1), facts_of("b", 4, "0", 1), facts_of("b", 4, "0", 1, "amx")};
  ranks[2].build.pop_back();
  EXPECT_TRUE(check_alike({ranks[0], ranks[1]}).ok());
  const Status status = check_alike(ranks);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, "XG0833");
  EXPECT_EQ(status.error().kind, ErrorKind::kWorld);
  EXPECT_THAT(status.error().message, HasSubstr("rank 2 on b differs from rank 0 on a"));
  EXPECT_THAT(status.error().notes,
              ElementsAre("instruction set: avx2 on rank 0, amx on rank 2", "dnnl: 2.7 on rank 0, none on rank 2"));
}

TEST(JobFacts, DifferencesCoverAllRanksAndAreLimited) {
  size_t first = 0;
  EXPECT_THAT(differences({{{"a", "1"}}, {{"a", "1"}}}, first), IsEmpty());
  EXPECT_THAT(differences({{{"a", "1"}}, {{"a", "1"}}, {{"a", "2"}, {"b", "3"}}}, first),
              ElementsAre("a: 1 on rank 0, 2 on rank 2", "b: none on rank 0, 3 on rank 2"));
  EXPECT_EQ(first, 2U);
  std::vector<Facts> many(20, {{"a", "2"}});
  many[0] = {{"a", "1"}};
  const auto notes = differences(many, first);
  EXPECT_EQ(notes.size(), 9U);
  EXPECT_EQ(notes.back(), "and more");
  EXPECT_EQ(first, 1U);
}

TEST(JobFacts, PlansLimitTheNumberOfRanks) {
  planner::Plan plan;
  plan.training.devices = 3;
  plan.training.heads.resize(1);
  EXPECT_TRUE(check_ranks(plan, 3).ok());
  const Status many = check_ranks(plan, 4);
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().code, "XG0832");
  EXPECT_EQ(many.error().kind, ErrorKind::kUsage);
  plan.training.heads[0].mapped = true;
  EXPECT_TRUE(check_ranks(plan, 1).ok());
  EXPECT_FALSE(check_ranks(plan, 2).ok());
}

}  // namespace
}  // namespace xrun::cli
