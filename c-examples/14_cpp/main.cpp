// C++: the slope of a line through points that are spread over the ranks, found by gradient descent.
#include <penny.hpp>

#include <cstdint>
#include <cstdio>
#include <vector>

// Runs one rank. An exception that leaves it tells the other ranks that this one has given up.
static void fit() {
    auto comm = penny::communicator::from_env();
    const int rank = comm.rank(), ranks = comm.size();

    // This rank's points: y = 3 x - 1, at x = rank, rank + ranks, rank + 2 ranks, ... below 12, as fractions of 12.
    std::vector<double> xs, ys;
    for (int i = rank; i < 12; i += ranks) {
        xs.push_back(i / 12.0);
        ys.push_back(3 * xs.back() - 1);
    }

    // The gradient of the squared error, in memory that the other ranks can reach; element 2 counts the points.
    penny::shared_vector<double> gradient(3);
    double slope = 0, offset = 0;
    for (int step = 0; step < 400; step++) {
        gradient = {0, 0, static_cast<double>(xs.size())};
        for (std::size_t i = 0; i < xs.size(); i++) {
            const double error = slope * xs[i] + offset - ys[i];
            gradient[0] += error * xs[i];
            gradient[1] += error;
        }
        comm.all_reduce(gradient, gradient, pennySum);
        slope -= gradient[0] / gradient[2];
        offset -= gradient[1] / gradient[2];
    }

    // Rank 0 collects the number of points of each rank.
    std::vector<int> points(rank == 0 ? static_cast<std::size_t>(ranks) : 0);
    const int mine[] = {static_cast<int>(xs.size())};
    comm.gather(mine, points, 0);
    if (rank == 0) {
        for (int r = 0; r < ranks; r++) std::printf("rank %d had %d points\n", r, points[static_cast<std::size_t>(r)]);
        std::printf("y = %.2f x %+.2f\n", slope, offset);
    }

    // One-sided: every rank adds its points to a counter of rank 0, which takes no part in it.
    auto heap = comm.make_heap();
    auto counter = heap.allocate<std::int64_t>(1);
    heap.add(counter, 0, static_cast<std::int64_t>(xs.size()), 0);
    heap.barrier();
    if (rank == 0) std::printf("%d points in all\n", static_cast<int>(counter[0]));

    // A wrong argument is an exception with a sentence.
    try {
        comm.broadcast(gradient, ranks);
    } catch (const penny::error &error) {
        if (rank == 0) std::printf("%s\n", error.what());
    }
    comm.destroy();
}

int main() {
    try {
        fit();
    } catch (const penny::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
