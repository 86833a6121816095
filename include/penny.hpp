// Penny for C++17 and later: communicators, streams and memory as objects, buffers of any container, errors as exceptions or results.
//
//     #include <penny.hpp>
//
//     auto comm = penny::communicator::from_env();                      under penny run, mpirun, srun, torchrun
//     std::vector<float> mine(3, comm.rank()), sum(3);
//     comm.all_reduce(mine, sum, pennySum);
//
// It is a header over penny.h: every function makes one call of that, whose documentation holds. Link the library as a C program does.
// include/README.md has the rules for all functions.

#ifndef PENNY_HPP
#define PENNY_HPP

#include <penny/communicator.hpp>
#include <penny/elements.hpp>
#include <penny/error.hpp>
#include <penny/recording.hpp>
#include <penny/stream.hpp>

namespace penny {

#if defined(__cpp_exceptions)
using communicator = basic_communicator<as_exceptions>;
using stream = basic_stream<as_exceptions>;
using event = basic_event<as_exceptions>;
using group = basic_group<as_exceptions>;
using heap = basic_heap<as_exceptions>;
using mailbox = basic_mailbox<as_exceptions>;
using recorder = basic_recorder<as_exceptions>;
using recording = basic_recording<as_exceptions>;
#endif

// The same without exceptions: a function returns a penny::status or a penny::result. It also serves programs that are compiled with
// -fno-exceptions, which have only these.
namespace nothrow {
using communicator = basic_communicator<as_results>;
using stream = basic_stream<as_results>;
using event = basic_event<as_results>;
using group = basic_group<as_results>;
using heap = basic_heap<as_results>;
using mailbox = basic_mailbox<as_results>;
using recorder = basic_recorder<as_results>;
using recording = basic_recording<as_results>;
}  // namespace nothrow

}  // namespace penny

#endif
