// A rank of a test program in C++: its communicator, its number as C and as C++ count, and the checks.
#include <penny.hpp>

static int rank = 0;
static int ranks = 1;
#define WHO "rank %d of %d: ", rank, ranks
#include "cases.h"
#include "throws.h"

#define RUN(name) RUN_THEN(name, (void)0)

static penny::communicator comm;
static std::size_t n, me;

static void join() {
    comm = penny::communicator::from_env();
    rank = comm.rank();
    ranks = comm.size();
    n = (std::size_t)ranks;
    me = (std::size_t)rank;
}
