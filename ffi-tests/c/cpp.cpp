// The C++ interface with exceptions: objects, deduced types, and every call by its results.
#include <penny.hpp>

#include <array>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

#include "cpp_rank.h"

template <class C, class D>
static bool equal(const C &got, const D &expected) {
    return std::equal(std::begin(got), std::end(got), std::begin(expected), std::end(expected));
}

static void types_are_deduced() {
    static_assert(penny::element<float>::type == pennyFloat32, "");
    static_assert(penny::element<char>::type == pennyInt8 || penny::element<char>::type == pennyUint8, "");
    static_assert(penny::element<signed char>::type == pennyInt8, "");
    static_assert(penny::element<unsigned short>::type == pennyUint16, "");
    static_assert(penny::element<long long>::type == pennyInt64, "");
    static_assert(penny::element<std::size_t>::type == pennyUint64, "");
    static_assert(penny::element<bool>::type == pennyBool, "");
    static_assert(penny::element<std::byte>::type == pennyUint8, "");
    static_assert(!std::is_copy_constructible<penny::communicator>::value, "one owner");
    const std::vector<double> in(3, 0.5);
    double out[3] = {};
    comm.all_reduce(in, out, pennySum);
    CHECK(equal(out, std::vector<double>(3, 0.5 * ranks)));
    long long one = 1 + rank;
    comm.all_reduce(penny::span(&one, 1), penny::span(&one, 1), pennyMax);
    CHECK_INT(one, ranks);
    bool any = rank == 0;
    comm.all_reduce(penny::span(&any, 1), penny::span(&any, 1), pennyLogicalOr);
    CHECK(any);
}

static void collectives_give_their_results() {
    std::vector<int> all(n), mine(1, 10 * rank), wide(2 * n, rank + 1), two(2);
    comm.all_gather(mine, all);
    for (int r = 0; r < ranks; r++) CHECK_INT(all[(std::size_t)r], 10 * r);
    // In place: this rank's part of the output.
    std::vector<int> placed(n, -1);
    placed[me] = rank;
    comm.all_gather(penny::span(&placed[me], 1), placed);
    for (int r = 0; r < ranks; r++) CHECK_INT(placed[(std::size_t)r], r);
    comm.reduce_scatter(wide, two, pennySum);
    CHECK_INT(two[1], ranks * (ranks + 1) / 2);
    std::vector<int> odd(3 * n - (n > 1), 1), three(3);
    comm.reduce_scatter_padded(odd, three, pennySum);
    CHECK_INT(three[1], ranks);
    CHECK_INT(three[2], ranks > 1 && rank == ranks - 1 ? 0 : ranks);
    std::vector<int> to(n, rank), from(n);
    comm.all_to_all(to, from);
    for (int r = 0; r < ranks; r++) CHECK_INT(from[(std::size_t)r], r);
    const int root = ranks - 1;
    std::vector<int> none, gathered(rank == root ? n : 0);
    comm.gather(mine, gathered, root);
    if (rank == root) CHECK(equal(gathered, all));
    comm.scatter(gathered, two.size() ? penny::span(&two[0], 1) : penny::span(two), root);
    CHECK_INT(two[0], 10 * rank);
    comm.reduce(mine, gathered.empty() ? penny::span(none) : penny::span(&gathered[0], 1), pennySum, root);
    if (rank == root) CHECK_INT(gathered[0], 5 * ranks * (ranks - 1));
    std::array<float, 4> sent{};
    if (rank == root) sent = {1, 2, 3, 4};
    comm.broadcast(sent, root);
    CHECK(sent[3] == 4);
    std::vector<int> right(n);
    for (int r = 0; r < ranks; r++) right[(std::size_t)r] = (r + 1) % ranks;
    comm.permute(mine, penny::span(&two[0], 1), right);
    CHECK_INT(two[0], 10 * ((rank + ranks - 1) % ranks));
    comm.barrier();
}

// Rank r's block has r + 1 elements, with a gap before it where displacements say so.
static void blocks_have_their_own_sizes() {
    std::vector<std::size_t> counts(n), spread(n);
    for (std::size_t r = 0; r < n; r++) counts[r] = r + 1, spread[r] = r * (n + 1) + 1;
    const std::size_t total = n * (n + 1) / 2;
    std::vector<int> mine(me + 1, rank), all(total), apart(n * (n + 1) + 1, -1);
    comm.all_gather_v(mine, all, counts);
    CHECK_INT(all[0], 0);
    CHECK_INT(all[total - 1], ranks - 1);
    comm.all_gather_v(mine, apart, {counts, spread});
    for (std::size_t r = 0; r < n; r++) CHECK_INT(apart[spread[r] + r], r);
    CHECK_INT(apart[0], -1);
    std::vector<int> at_root(rank == 0 ? total : 0), back(me + 1);
    comm.gather_v(mine, at_root, counts, 0);
    if (rank == 0) CHECK(equal(at_root, all));
    comm.scatter_v(at_root, counts, back, 0);
    CHECK(equal(back, mine));
    std::vector<int> sums(me + 1);
    comm.reduce_scatter_v(all, sums, counts, pennySum);
    CHECK_INT(sums[me], rank * ranks);
    std::vector<std::size_t> same(n, me + 1);
    std::vector<int> out(n * (me + 1), rank), in(total);
    comm.all_to_all_v(out, same, in, counts);
    CHECK(equal(in, all));
}

static void transfers_go_in_groups() {
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    std::vector<float> out(100, (float)rank), in(100);
    penny::group group;
    comm.send(out, next);
    comm.recv(in, previous);
    group.end();
    CHECK(in[99] == (float)previous);
    if (ranks > 1) {
        if (rank == 0) comm.send(out, 1);
        if (rank == 1) {
            std::optional<penny::message> found;
            while (!found) found = comm.probe(0);
            CHECK_INT(found->count, 100);
            CHECK_INT(found->type, pennyFloat32);
            comm.recv(in, 0);
        }
    }
}

static void a_group_that_is_left_makes_no_calls() {
    std::vector<int> data(4, rank);
    try {
        penny::group outer;
        comm.all_reduce(data, data, pennySum);
        penny::group inner;
        comm.barrier();
        throw 5;
    } catch (int) {
    }
    CHECK(equal(data, std::vector<int>(4, rank)));
    THROWS(pennyInvalidUsage, "no group is open", { penny::group group; group.end(); group.end(); });
    // An inner group that is left takes the outer one with it.
    THROWS(pennyInvalidArgument, "none of it was run", {
        penny::group outer;
        comm.all_reduce(data, data, pennySum);
        { penny::group inner; }
        outer.end();
    });
    // A refusal of this interface counts as one of the library.
    THROWS(pennyInvalidArgument, "none of it was run", {
        penny::group group;
        comm.all_reduce(data, data, pennySum);
        THROWS(pennyInvalidArgument, "recv has 3 elements, not 4", comm.all_reduce(data, penny::span(&data[0], 3), pennySum));
        group.end();
    });
    CHECK(equal(data, std::vector<int>(4, rank)));
    THROWS(pennyInvalidUsage, "not made in a penny::group", { penny::group group; comm.dup(); });
    THROWS(pennyInvalidUsage, "not made in a penny::group", { penny::group group; comm.make_window(data); });
    THROWS(pennyInvalidUsage, "not made in a penny::group", { penny::group group; penny::communicator::all(2); });
    comm.barrier();
}

static void wrong_sizes_are_refused() {
    std::vector<int> three(3), many(3 * n), more(3 * n + 1), none;
    std::vector<std::size_t> counts(n, 3), begins(n, 1), few(n + 1);
    THROWS(pennyInvalidArgument, "all_gather: recv has 3", comm.all_gather(more, three));
    THROWS(pennyInvalidArgument, "all_gather: recv has", comm.all_gather(three, more));
    THROWS(pennyInvalidArgument, "reduce_scatter: send has", comm.reduce_scatter(more, three, pennySum));
    THROWS(pennyInvalidArgument, "reduce_scatter_padded: recv has", comm.reduce_scatter_padded(more, none, pennySum));
    THROWS(pennyInvalidArgument, "all_to_all: send has", comm.all_to_all(more, many));
    if (ranks > 1) THROWS(pennyInvalidArgument, "all_to_all: recv has", comm.all_to_all(more, more));
    THROWS(pennyInvalidArgument, "permute: destinations has", comm.permute(three, three, std::vector<int>(n + 1)));
    THROWS(pennyInvalidArgument, "permute: send has 0", comm.permute(none, three, std::vector<int>(n, rank)));
    THROWS(pennyInvalidArgument, "displacements", comm.all_gather_v(three, more, few));
    THROWS(pennyInvalidArgument, "displacements", comm.all_gather_v(three, more, {counts, few}));
    THROWS(pennyInvalidArgument, "block of rank", comm.all_gather_v(three, none, counts));
    THROWS(pennyInvalidArgument, "block of rank 0", comm.all_to_all_v(three, {counts, begins}, many, counts));
    begins[0] = (std::size_t)-1;
    THROWS(pennyInvalidArgument, "block of rank 0", comm.all_gather_v(three, many, {counts, begins}));
    if (rank == 0) {
        THROWS(pennyInvalidArgument, "reduce: recv has 0", comm.reduce(three, none, pennySum, 0));
        THROWS(pennyInvalidArgument, "gather: recv has 0", comm.gather(three, none, 0));
        THROWS(pennyInvalidArgument, "scatter: send has 0", comm.scatter(none, three, 0));
        THROWS(pennyInvalidArgument, "gather_v", comm.gather_v(three, none, counts, 0));
        THROWS(pennyInvalidArgument, "scatter_v", comm.scatter_v(none, counts, three, 0));
    }
    THROWS(pennyInvalidArgument, "reduce_scatter_v: recv has 0", comm.reduce_scatter_v(many, none, counts, pennySum));
    // What the library refuses has its sentence.
    THROWS(pennyInvalidArgument, "pennyBcast: root", comm.broadcast(three, ranks));
    penny::communicator moved;
    CHECK(!moved && moved.rank() == -1 && moved.size() == -1);
    THROWS(pennyInvalidArgument, "pennyAllGather: comm", moved.all_gather(three, more));
    THROWS(pennyInvalidArgument, "pennyAllGatherv: comm", moved.all_gather_v(three, more, counts));
    comm.barrier();
}

static void count_call(void *counter) { ++*static_cast<int *>(counter); }

static void streams_run_calls_in_order() {
    penny::stream stream = penny::stream::make(), second = penny::stream::make();
    penny::event begun = penny::event::make(), reduced = penny::event::make();
    penny::shared_vector<double> data(1 << 16, 1.0);
    int called = 0;
    begun.record(stream);
    comm.all_reduce(data, data, pennySum, stream);
    stream.launch(count_call, &called);
    reduced.record(stream);
    second.wait(reduced);
    second.synchronize();
    reduced.synchronize();
    CHECK(reduced.is_complete() && begun.is_complete());
    CHECK_INT(called, 1);
    CHECK(data[0] == ranks && data.back() == ranks);
    stream.synchronize();
    CHECK(stream.is_complete());
    penny::stream taken = std::move(stream);
    stream = penny::stream::make();
    comm.barrier(taken);
    taken.synchronize();
}

static void memory_is_lent_to_the_other_ranks() {
    std::vector<float> plain(1 << 16, 1.0F);
    {
        penny::registration held = comm.register_memory(plain), moved;
        moved = std::move(held);
        comm.all_reduce(plain, plain, pennySum);
        CHECK(plain[0] == (float)ranks && plain.back() == (float)ranks);
    }
    penny::shared_vector<int> inbox(n, -1);
    penny::window window = comm.make_window(inbox);
    CHECK((bool)window);
    std::vector<pennyWaitSignalDesc_t> all;
    for (int r = 0; r < ranks; r++) {
        const int word = 100 * rank + r;
        comm.put_signal(penny::span(&word, 1), r, window, me * sizeof(int), {3, 1});
        all.push_back({1, r, 3, 1});
    }
    comm.wait_signals(all);
    for (int r = 0; r < ranks; r++) CHECK_INT(inbox[(std::size_t)r], 100 * r + rank);
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    comm.signal(next);
    comm.wait_signals({{1, previous, 0, 0}});
    comm.barrier();
    // No window where the memory of a rank cannot be reached by the others.
    CHECK(!comm.make_window(plain));
    THROWS(pennySystemError, "pennyMemAlloc", penny::shared_vector<char>((std::size_t)1 << 62));
}

static void factors_are_multiplied_in() {
    std::vector<float> in(5, 1), out(5);
    penny::premul_sum weighted = comm.make_premul_sum((float)(rank + 1));
    comm.all_reduce(in, out, weighted);
    CHECK(out[4] == (float)(ranks * (ranks + 1) / 2));
}

static void communicators_come_from_others() {
    penny::communicator twin = comm.dup();
    CHECK(twin.size() == ranks && twin.rank() == rank && twin.device() == rank && twin.is_ready());
    penny::communicator half = twin.split(rank % 2, -rank);
    CHECK_INT(half.size(), (ranks + 1 - rank % 2) / 2);
    CHECK_INT(half.rank(), half.size() - 1 - rank / 2);
    CHECK(!twin.split(PENNY_SPLIT_NOCOLOR));
    CHECK_INT(twin.divide(pennyGroupConsecutive, 1).size(), 1);
    if (ranks > 1) {
        const std::array<int, 1> last = {ranks - 1};
        if (rank != ranks - 1) CHECK_INT(twin.shrink(last).size(), ranks - 1);
    }
    comm.barrier();
    twin.revoke();
    THROWS(pennyRemoteError, "revoked", twin.barrier());
    half.abort();
    CHECK(!half);
    twin.destroy();
    penny::config settings;
    settings.timeoutMs = 5000;
    settings.commName = "named";
    penny::communicator named = comm.split(0, rank, settings);
    THROWS(pennyInvalidArgument, "named", named.send(std::vector<int>(1), ranks));
    penny::communicator taken = penny::communicator::adopt(named.release());
    CHECK(!named && taken.rank() == rank);
    taken.finalize();
}

static void ranks_of_one_thread_meet_in_a_group() {
    std::vector<penny::communicator> mine = penny::communicator::all(3);
    std::vector<int> data = {1, 2, 3};
    penny::group group;
    for (std::size_t r = 0; r < 3; r++) mine[r].all_reduce(penny::span(&data[r], 1), penny::span(&data[r], 1), pennySum);
    group.end();
    CHECK(equal(data, std::vector<int>(3, 6)));
    penny::communicator alone = penny::communicator::join(penny::communicator::unique_id(), 1, 0);
    CHECK_INT(alone.size(), 1);
}

static void an_exception_ends_the_calls_of_the_other_ranks() {
    penny::communicator keeps = comm.dup();
    if (rank == ranks - 1) {
        try {
            penny::communicator mine = std::move(keeps);
            throw std::runtime_error("planted");
        } catch (const std::runtime_error &) {
        }
    } else {
        THROWS(pennyRemoteError, ("rank " + std::to_string(ranks - 1) + " aborted").c_str(), keeps.barrier());
    }
    comm.barrier();
}

int main() {
    join();
    RUN(types_are_deduced);
    RUN(collectives_give_their_results);
    RUN(blocks_have_their_own_sizes);
    RUN(transfers_go_in_groups);
    RUN(a_group_that_is_left_makes_no_calls);
    RUN(wrong_sizes_are_refused);
    RUN(streams_run_calls_in_order);
    RUN(memory_is_lent_to_the_other_ranks);
    RUN(factors_are_multiplied_in);
    RUN(communicators_come_from_others);
    RUN(ranks_of_one_thread_meet_in_a_group);
    RUN(an_exception_ends_the_calls_of_the_other_ranks);
    comm.destroy();
}
