// The calls on a communicator: collectives, transfers, puts and signals.
//
// The number of elements is that of the buffers, and their type is that of the elements. A buffer of another size is
// pennyInvalidArgument, which no other rank hears of; penny::span(pointer, count) is a part of a buffer. In place means that both
// arguments are one buffer, or that one is the part of the other that include/README.md names. op: pennySum and its neighbours, or
// a premul_sum. stream: see stream.hpp; without one the call is complete when it returns. What a call does is told in penny.h.

#ifndef PENNY_CALLS_HPP
#define PENNY_CALLS_HPP

#include <penny/elements.hpp>
#include <penny/memory.hpp>
#include <penny/stream.hpp>

#include <initializer_list>
#include <optional>
#include <string>

namespace penny {

// A message that has arrived: its number of elements and their type.
struct message {
    std::size_t count;
    pennyDataType_t type;
};

// The calls of a communicator, which has get(), rank() and size().
template <class Communicator, class Errors>
class calls {
    using done = typename Errors::template returned<void>;

public:
    // Reduces over all ranks and gives every rank the result. send, recv: equally long.
    template <class S, class R>
    done all_reduce(const S &send, R &&recv, pennyRedOp_t op, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        return sized("all_reduce", "recv", out.size(), in.size(), [&] {
            return pennyAllReduce(in.data(), out.data(), in.size(), detail::type_of<R>, op, comm(), stream);
        });
    }

    // Reduces over all ranks and gives root the result. recv: as long as send at root; not used elsewhere.
    template <class S, class R>
    done reduce(const S &send, R &&recv, pennyRedOp_t op, int root, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        return sized("reduce", "recv", is(root) ? out.size() : in.size(), in.size(), [&] {
            return pennyReduce(in.data(), out.data(), in.size(), detail::type_of<R>, op, root, comm(), stream);
        });
    }

    // Copies root's data to every rank. data: the input at root, the output elsewhere.
    template <class R>
    done broadcast(R &&data, int root, pennyStream_t stream = nullptr) {
        const auto out = detail::output(data);
        return told(pennyBcast(out.data(), out.size(), detail::type_of<R>, root, comm(), stream));
    }

    // Collects each rank's send on every rank, in the order of ranks. recv: ranks times as long.
    template <class S, class R>
    done all_gather(const S &send, R &&recv, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        return sized("all_gather", "recv", out.size(), ranks() * in.size(), [&] {
            return pennyAllGather(in.data(), out.data(), in.size(), detail::type_of<R>, comm(), stream);
        });
    }

    // Reduces over all ranks and gives each rank one block of the result. send: ranks times as long as recv.
    template <class S, class R>
    done reduce_scatter(const S &send, R &&recv, pennyRedOp_t op, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        return sized("reduce_scatter", "send", in.size(), ranks() * out.size(), [&] {
            return pennyReduceScatter(in.data(), out.data(), out.size(), detail::type_of<R>, op, comm(), stream);
        });
    }

    // Reduces and scatters an input of any length. recv: a block, which is the length of send divided by the ranks, rounded up.
    template <class S, class R>
    done reduce_scatter_padded(const S &send, R &&recv, pennyRedOp_t op, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        const std::size_t block = in.size() / ranks() + (in.size() % ranks() != 0);
        return sized("reduce_scatter_padded", "recv", out.size(), block, [&] {
            return pennyReduceScatterPadded(in.data(), out.data(), in.size(), detail::type_of<R>, op, comm(), stream);
        });
    }

    // Sends block j of each rank's send to rank j. send, recv: equally long, a block for each rank.
    template <class S, class R>
    done all_to_all(const S &send, R &&recv, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        const std::size_t count = out.size() / ranks();
        const bool whole = out.size() == count * ranks();
        return sized("all_to_all", whole ? "send" : "recv", whole ? in.size() : out.size(), count * ranks(), [&] {
            return pennyAlltoAll(in.data(), out.data(), count, detail::type_of<R>, comm(), stream);
        });
    }

    // Collects each rank's send at root, in the order of ranks. recv: ranks times as long at root; not used elsewhere.
    template <class S, class R>
    done gather(const S &send, R &&recv, int root, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        const std::size_t needed = ranks() * in.size();
        return sized("gather", "recv", is(root) ? out.size() : needed, needed, [&] {
            return pennyGather(in.data(), out.data(), in.size(), detail::type_of<R>, root, comm(), stream);
        });
    }

    // Copies block r of root's send to rank r. send: ranks times as long as recv at root; not used elsewhere.
    template <class S, class R>
    done scatter(const S &send, R &&recv, int root, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        const std::size_t needed = ranks() * out.size();
        return sized("scatter", "send", is(root) ? in.size() : needed, needed, [&] {
            return pennyScatter(in.data(), out.data(), out.size(), detail::type_of<R>, root, comm(), stream);
        });
    }

    // Sends each rank's block to the rank that destinations names, or to none if that is -1. send, recv: equally long; send may be
    // empty on a rank that sends to none. destinations: one for each rank, the same list on all ranks.
    template <class S, class R>
    done permute(const S &send, R &&recv, span<const int> destinations, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        if (destinations.size() != ranks()) return sized("permute", "destinations", destinations.size(), ranks(), nothing);
        const bool sends = destinations.data()[own().rank() < 0 ? 0 : own().rank()] != -1;
        return sized("permute", "send", sends ? in.size() : out.size(), out.size(), [&] {
            return pennyPermute(in.data(), out.data(), out.size(), detail::type_of<R>, destinations.data(), comm(), stream);
        });
    }

    // Waits until every rank has called it.
    done barrier(pennyStream_t stream = nullptr) { return told(pennyBarrier(comm(), stream)); }

    // Sends a block of its own size to each rank, and receives one from each.
    template <class S, class R>
    done all_to_all_v(const S &send, const blocks &sent, R &&recv, const blocks &received, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        status fits = within("all_to_all_v", "send", in.size(), sent);
        if (fits) fits = within("all_to_all_v", "recv", out.size(), received);
        return fits ? told(pennyAlltoAllv(in.data(), sent.counts.data(), sent.displacements.data(), out.data(),
                                          received.counts.data(), received.displacements.data(), detail::type_of<R>, comm(), stream))
                    : Errors::tell(std::move(fits));
    }

    // Collects a block of its own size from each rank on every rank. send: as long as this rank's block.
    template <class S, class R>
    done all_gather_v(const S &send, R &&recv, const blocks &received, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        status fits = within("all_gather_v", "recv", out.size(), received);
        return fits ? told(pennyAllGatherv(in.data(), in.size(), out.data(), received.counts.data(), received.displacements.data(),
                                           detail::type_of<R>, comm(), stream))
                    : Errors::tell(std::move(fits));
    }

    // Collects a block of its own size from each rank at root. recv, received: not used elsewhere.
    template <class S, class R>
    done gather_v(const S &send, R &&recv, const blocks &received, int root, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        status fits = is(root) ? within("gather_v", "recv", out.size(), received) : status();
        return fits ? told(pennyGatherv(in.data(), in.size(), out.data(), received.counts.data(), received.displacements.data(),
                                        detail::type_of<R>, root, comm(), stream))
                    : Errors::tell(std::move(fits));
    }

    // Gives each rank a block of its own size of root's send. recv: as long as the block. send, sent: not used elsewhere.
    template <class S, class R>
    done scatter_v(const S &send, const blocks &sent, R &&recv, int root, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        status fits = is(root) ? within("scatter_v", "send", in.size(), sent) : status();
        return fits ? told(pennyScatterv(in.data(), sent.counts.data(), sent.displacements.data(), out.data(), out.size(),
                                         detail::type_of<R>, root, comm(), stream))
                    : Errors::tell(std::move(fits));
    }

    // Reduces over all ranks and gives each rank a block of its own size of the result. counts: of each rank's block, which follow
    // each other in send. recv: as long as this rank's block.
    template <class S, class R>
    done reduce_scatter_v(const S &send, R &&recv, span<const std::size_t> counts, pennyRedOp_t op, pennyStream_t stream = nullptr) {
        const auto in = detail::input(send);
        const auto out = detail::output(recv);
        detail::same_elements<const S, R>();
        status fits = within("reduce_scatter_v", "send", in.size(), counts);
        if (!fits) return Errors::tell(std::move(fits));
        return sized("reduce_scatter_v", "recv", out.size(), own().rank() < 0 ? 0 : counts.data()[own().rank()], [&] {
            return pennyReduceScatterv(in.data(), out.data(), counts.data(), detail::type_of<R>, op, comm(), stream);
        });
    }

    // Sends data to peer, which calls recv with the same number and type. Two ranks that send to each other use a group.
    template <class S>
    done send(const S &data, int peer, pennyStream_t stream = nullptr) {
        const auto in = detail::input(data);
        return told(pennySend(in.data(), in.size(), detail::type_of<const S>, peer, comm(), stream));
    }

    // Receives data from peer.
    template <class R>
    done recv(R &&data, int peer, pennyStream_t stream = nullptr) {
        const auto out = detail::output(data);
        return told(pennyRecv(out.data(), out.size(), detail::type_of<R>, peer, comm(), stream));
    }

    // Describes the message of peer that the next recv from it would take, if one has arrived.
    typename Errors::template returned<std::optional<message>> probe(int peer) {
        int arrived = 0;
        message found{};
        status outcome = detail::outcome(pennyProbe(peer, comm(), &arrived, &found.count, &found.type));
        if (!outcome) return Errors::template fail<std::optional<message>>(std::move(outcome));
        return Errors::give(arrived ? std::optional<message>(found) : std::optional<message>());
    }

    // Writes data into peer's part of a window, offset bytes from its start, then sends peer the signal. peer need not be in a call.
    template <class S>
    done put_signal(const S &data, int peer, const window &to, std::size_t offset, signal_id id = {}, pennyStream_t stream = nullptr) {
        const auto in = detail::input(data);
        return told(pennyPutSignal(in.data(), in.size(), detail::type_of<const S>, peer, to, offset, id.index, id.context, 0, comm(),
                                   stream));
    }

    // Sends peer the signal without data.
    done signal(int peer, signal_id id = {}, pennyStream_t stream = nullptr) {
        return told(pennySignal(peer, id.index, id.context, 0, comm(), stream));
    }

    // Waits until all signals have arrived that the descriptors {count, peer, index, context} name, and subtracts them.
    done wait_signals(span<const pennyWaitSignalDesc_t> awaited, pennyStream_t stream = nullptr) {
        // The function only reads them.
        auto *descriptors = const_cast<pennyWaitSignalDesc_t *>(awaited.data());
        return told(pennyWaitSignal(static_cast<int>(awaited.size()), descriptors, comm(), stream));
    }
    done wait_signals(std::initializer_list<pennyWaitSignalDesc_t> awaited, pennyStream_t stream = nullptr) {
        return wait_signals(span<const pennyWaitSignalDesc_t>(awaited.begin(), awaited.size()), stream);
    }

private:
    const Communicator &own() const noexcept { return static_cast<const Communicator &>(*this); }
    pennyComm_t comm() const noexcept { return own().get(); }
    bool is(int root) const noexcept { return own().rank() == root; }
    static pennyResult_t nothing() noexcept { return pennySuccess; }

    // The number of ranks. Where there is no communicator, 1: the library then refuses the call.
    std::size_t ranks() const noexcept { return own().size() < 1 ? 1 : static_cast<std::size_t>(own().size()); }

    static done told(pennyResult_t code) { return Errors::tell(detail::outcome(code)); }

    status refused(const char *name, const std::string &what) const {
        const std::string who = " (rank " + std::to_string(own().rank()) + " of " + std::to_string(ranks()) + ")";
        return detail::refused(pennyInvalidArgument, std::string("penny::communicator::") + name + ": " + what + who);
    }

    // Makes a call if a buffer has as many elements as it needs.
    template <class Call>
    done sized(const char *name, const char *buffer, std::size_t has, std::size_t needs, Call call) const {
        if (has == needs || own().size() < 0) return told(call());
        return Errors::tell(refused(name, std::string(buffer) + " has " + std::to_string(has) + " elements, not " +
                                              std::to_string(needs) + "; pass the part that the call uses, penny::span(pointer, count)"));
    }

    // Checks that there is a block for each rank, and that all lie within their buffer.
    status within(const char *name, const char *buffer, std::size_t size, const blocks &of) const {
        if (own().size() < 0) return status();
        const std::size_t listed = of.displacements.empty() ? ranks() : of.displacements.size();
        if (of.counts.size() != ranks() || listed != ranks()) {
            return refused(name, "the blocks of " + std::string(buffer) + " have " + std::to_string(of.counts.size()) + " counts and " +
                                     std::to_string(of.displacements.size()) + " displacements; pass one for each rank, or no displacements");
        }
        std::size_t follows = 0;
        for (std::size_t r = 0; r < ranks(); r++) {
            const std::size_t begin = of.displacements.empty() ? follows : of.displacements.data()[r];
            const std::size_t count = of.counts.data()[r];
            if (begin > size || count > size - begin) {
                return refused(name, "the block of rank " + std::to_string(r) + " has " + std::to_string(count) + " elements from element " +
                                         std::to_string(begin) + " on, and " + buffer + " has " + std::to_string(size) + " elements");
            }
            follows = begin + count;
        }
        return status();
    }
};

}  // namespace penny

#endif
