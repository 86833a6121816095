// The C++ interface without exceptions: what a call returns. Compiled with -fno-exceptions, too.
#include <penny.hpp>

#include <cstring>
#include <utility>
#include <vector>

static int rank = 0;
static int ranks = 1;
#define WHO "rank %d of %d: ", rank, ranks
#include "cases.h"

#define RUN(name) RUN_THEN(name, (void)0)

// The call returns a success.
#define OK(call)                                     \
    do {                                             \
        auto outcome_ = (call);                      \
        if (!outcome_) FAIL("%s", outcome_.what());  \
    } while (0)

// The call returns a failure of this code whose sentence has the text.
#define FAILS(expected, text, call)                                                                                         \
    do {                                                                                                                    \
        auto outcome_ = (call);                                                                                             \
        if (outcome_.code() != (expected)) FAIL("%s: %d: %s", #call, (int)outcome_.code(), outcome_.what());                \
        if (std::strstr(outcome_.what(), text) == nullptr) FAIL("\"%s\" does not say \"%s\"", outcome_.what(), text);       \
    } while (0)

namespace results = penny::nothrow;
static results::communicator comm;

static void calls_return_their_outcome() {
    std::vector<int> data(4, rank), three(3);
    OK(comm.all_reduce(data, data, pennySum));
    CHECK_INT(data[3], ranks * (ranks - 1) / 2);
    FAILS(pennyInvalidArgument, "recv has 3 elements, not 4", comm.all_reduce(data, three, pennySum));
    FAILS(pennyInvalidArgument, "pennyBcast: root", comm.broadcast(data, -1));
    CHECK(comm.barrier().code() == pennySuccess && *comm.barrier().what() == '\0');
    auto ready = comm.is_ready();
    CHECK(ready && *ready);
}

static void what_is_made_is_in_the_result() {
    auto made = comm.dup();
    CHECK(made && made->size() == ranks);
    results::communicator twin = *std::move(made);
    CHECK(twin && !*made);
    FAILS(pennyInvalidArgument, "pennyCommSplit: comm", results::communicator().split(0));
    auto stream = results::stream::make();
    auto event = results::event::make();
    CHECK(stream && event);
    std::vector<float> data(8, 1);
    OK(twin.all_reduce(data, data, pennySum, *stream));
    OK(event->record(*stream));
    OK(event->synchronize());
    CHECK(data[7] == (float)ranks);
    auto over = stream->is_complete();
    CHECK(over && *over);
    auto weighted = twin.make_premul_sum(0.5F);
    CHECK((bool)weighted);
    OK(twin.all_reduce(data, data, *weighted));
    CHECK(data[0] == 0.5F * (float)(ranks * ranks));
    OK(twin.destroy());
    FAILS(pennyInvalidArgument, "comm", twin.barrier());
}

static void a_group_with_a_refused_call_makes_none() {
    std::vector<int> data(4, rank), three(3);
    results::group group;
    OK(comm.all_reduce(data, data, pennySum));
    FAILS(pennyInvalidArgument, "recv has 3", comm.all_reduce(data, three, pennySum));
    FAILS(pennyInvalidArgument, "none of it was run", group.end());
    CHECK_INT(data[0], rank);
    {
        results::group left;
        OK(comm.all_reduce(data, data, pennySum));
    }
    CHECK_INT(data[0], rank);
    OK(comm.barrier());
}

int main() {
    auto joined = results::communicator::from_env();
    if (!joined) FAIL("%s", joined.what());
    comm = *std::move(joined);
    rank = comm.rank();
    ranks = comm.size();
    RUN(calls_return_their_outcome);
    RUN(what_is_made_is_in_the_result);
    RUN(a_group_with_a_refused_call_makes_none);
    OK(comm.destroy());
}
