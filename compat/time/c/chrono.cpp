// std::chrono, and waits of the library of C++.
#define WHO " "
#include "cases.h"
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

using namespace std::chrono;

static void compute() {
    volatile double sum = 0;
    for (int i = 0; i < 30000000; i++) sum = sum + std::sqrt(i);
}

static void computing_takes_no_time() {
    auto steady = steady_clock::now();
    auto day = system_clock::now();
    auto best = high_resolution_clock::now();
    compute();
    CHECK(steady_clock::now() == steady);
    CHECK(system_clock::now() == day);
    CHECK(high_resolution_clock::now() == best);
}

static void sleeps_and_waits_take_as_long_as_was_asked() {
    auto began = steady_clock::now();
    std::this_thread::sleep_for(milliseconds(12));
    CHECK(steady_clock::now() - began == milliseconds(12));
    std::this_thread::sleep_until(steady_clock::now() + milliseconds(5));
    CHECK(steady_clock::now() - began == milliseconds(17));
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    CHECK(never.wait_for(lock, milliseconds(8)) == std::cv_status::timeout);
    CHECK(steady_clock::now() - began == milliseconds(25));
    CHECK(!never.wait_until(lock, steady_clock::now() + milliseconds(5), [] { return false; }));
    CHECK(steady_clock::now() - began == milliseconds(30));
}

int main() {
    RUN_THEN(computing_takes_no_time, );
    RUN_THEN(sleeps_and_waits_take_as_long_as_was_asked, );
    return 0;
}
