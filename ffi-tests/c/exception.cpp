// An exception leaves parallelFor: the process ends with a sentence. The other rank gets an error that names the dead one.
#include <penny.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

static void throws(void *, int, pennyLoopBody_t, void *) { throw std::runtime_error("planted"); }

int main() {
    const int rank = std::atoi(std::getenv("PENNY_RANK"));
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t comm = nullptr;
    std::vector<float> data(1 << 20);
    config.threads = rank == 1 ? 2 : 1;
    config.parallelFor = rank == 1 ? throws : nullptr;
    if (pennyCommInitFromEnv(&comm, &config) != pennySuccess) return 2;
    pennyResult_t result = pennyAllReduce(data.data(), data.data(), data.size(), pennyFloat, pennySum, comm, nullptr);
    std::fprintf(stderr, "rank %d: %d: %s\n", rank, static_cast<int>(result), pennyGetLastError(comm));
    pennyCommAbort(comm);
    return result == pennyRemoteError ? 0 : 3;
}
