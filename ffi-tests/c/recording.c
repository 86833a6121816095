/* src/ffi/group.rs: calls that are recorded and made at each launch. */
#include "check.h"

enum { COUNT = 3000, LAUNCHES = 20, MOST = 8 };
static pennyComm_t comm;

static int sum_of(int value) { return ranks * value + ranks * (ranks - 1) / 2; }

static void a_recorded_call_is_made_at_each_launch(void) {
    static int in[COUNT], out[COUNT];
    pennyRecording_t recording;
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    for (int count = 1; count <= COUNT; count += COUNT - 1) {
        OK(pennyRecordStart());
        OK(pennyAllReduce(in, out, (size_t)count, pennyInt, pennySum, comm, NULL));
        OK(pennyRecordEnd(&recording));
        CHECK_INT(out[0], count == 1 ? 0 : sum_of(LAUNCHES));
        for (int launch = 1; launch <= LAUNCHES; launch++) {
            for (int i = 0; i < count; i++) in[i] = rank + launch + i, out[i] = -1;
            OK(pennyRecordingLaunch(recording, launch % 3 == 0 ? NULL : stream));
            OK(pennyStreamSynchronize(stream));
            for (int i = 0; i < count; i++) CHECK_INT(out[i], sum_of(launch + i));
        }
        OK(pennyRecordingDestroy(recording));
    }
    OK(pennyStreamDestroy(stream));
}

static void calls_that_wait_for_each_other_are_made_together(void) {
    static int from[MOST][COUNT], to[MOST][COUNT];
    pennyRecording_t recording;
    pennyStream_t stream;
    CHECK(ranks <= MOST);
    OK(pennyStreamCreate(&stream));
    OK(pennyRecordStart());
    for (int r = 0; r < ranks; r++) {
        OK(pennySend(to[r], COUNT, pennyInt, r, comm, NULL));
        OK(pennyRecv(from[r], COUNT, pennyInt, r, comm, NULL));
    }
    OK(pennyRecordEnd(&recording));
    for (int launch = 0; launch < LAUNCHES; launch++) {
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) to[r][i] = rank * 1000000 + r * 10000 + i + launch, from[r][i] = -1;
        }
        OK(pennyRecordingLaunch(recording, stream));
        OK(pennyStreamSynchronize(stream));
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < COUNT; i++) CHECK_INT(from[r][i], r * 1000000 + rank * 10000 + i + launch);
        }
    }
    OK(pennyRecordingDestroy(recording));
    OK(pennyStreamDestroy(stream));
}

static void launches_that_are_queued_outlive_the_recording(void) {
    int value = 1;
    pennyRecording_t recording;
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    OK(pennyRecordStart());
    OK(pennyAllReduce(&value, &value, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyRecordEnd(&recording));
    int expected = 1;
    for (int launch = 0; launch < 5; launch++) {
        OK(pennyRecordingLaunch(recording, stream));
        expected *= ranks;
    }
    OK(pennyRecordingDestroy(recording));
    FAILS(pennyInvalidArgument, "not a live recording", pennyRecordingLaunch(recording, stream));
    FAILS(pennyInvalidArgument, "not a live recording", pennyRecordingDestroy(recording));
    OK(pennyStreamSynchronize(stream));
    CHECK_INT(value, expected);
    OK(pennyStreamDestroy(stream));
}

static void a_recording_keeps_the_factor_of_an_operation_that_is_gone(void) {
    float factor = 2, in = (float)(rank + 1), out = -1;
    pennyRedOp_t scaled;
    pennyRecording_t recording;
    OK(pennyRedOpCreatePreMulSum(&scaled, &factor, pennyFloat, pennyScalarHostImmediate, comm));
    OK(pennyRecordStart());
    OK(pennyAllReduce(&in, &out, 1, pennyFloat, scaled, comm, NULL));
    OK(pennyRecordEnd(&recording));
    OK(pennyRedOpDestroy(scaled, comm));
    factor = 3;
    OK(pennyRedOpCreatePreMulSum(&scaled, &factor, pennyFloat, pennyScalarHostImmediate, comm));
    OK(pennyRecordingLaunch(recording, NULL));
    CHECK(out == (float)(ranks * (ranks + 1)));
    OK(pennyRedOpDestroy(scaled, comm));
    OK(pennyRecordingDestroy(recording));
}

static void arguments_are_checked_when_a_call_is_recorded(void) {
    int word = 0;
    pennyRecording_t recording = NULL;
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    OK(pennyRecordStart());
    FAILS(pennyInvalidArgument, "sendbuff", pennyAllReduce(NULL, &word, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "nothing was recorded: pennyAllReduce", pennyRecordEnd(&recording));
    OK(pennyRecordStart());
    FAILS(pennyInvalidArgument, "root", pennyBcast(&word, 1, pennyInt, ranks, comm, NULL));
    FAILS(pennyInvalidArgument, "root", pennyRecordEnd(&recording));
    OK(pennyRecordStart());
    FAILS(pennyInvalidUsage, "pennyRecordingLaunch", pennyBcast(&word, 1, pennyInt, 0, comm, stream));
    FAILS(pennyInvalidUsage, "stream", pennyRecordEnd(&recording));
    CHECK(recording == NULL);
    OK(pennyStreamDestroy(stream));
}

static void a_recording_is_closed_by_its_own_end(void) {
    pennyRecording_t recording, inner;
    pennyComm_t made = NULL;
    int word = 1;
    FAILS(pennyInvalidUsage, "pennyRecordStart comes first", pennyRecordEnd(&recording));
    OK(pennyRecordStart());
    FAILS(pennyInvalidUsage, "close it with pennyRecordEnd", pennyGroupEnd());
    OK(pennyGroupStart());
    FAILS(pennyInvalidUsage, "close it with pennyGroupEnd", pennyRecordEnd(&recording));
    OK(pennyRecordStart());
    OK(pennyAllReduce(&word, &word, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyRecordEnd(&inner));
    OK(pennyGroupEnd());
    OK(pennyRecordEnd(&recording));
    OK(pennyRecordingLaunch(recording, NULL));
    CHECK_INT(word, 1);
    OK(pennyRecordingLaunch(inner, NULL));
    CHECK_INT(word, ranks);
    OK(pennyRecordingDestroy(inner));
    OK(pennyRecordingDestroy(recording));
    OK(pennyRecordStart());
    OK(pennyCommDup(comm, &made));
    FAILS(pennyInvalidUsage, "cannot be recorded", pennyRecordEnd(&recording));
    OK(pennyGroupStart());
    OK(pennyGroupEnd());
}

static void a_recording_does_not_disturb_the_group_that_is_open(void) {
    int word = rank, recorded = 1, sum = -1, again = -1;
    pennyRecording_t recording;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&word, &sum, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyRecordStart());
    FAILS(pennyInvalidArgument, "", pennyBcast(&word, 1, pennyInt, -1, comm, NULL));
    FAILS(pennyInvalidArgument, "", pennyRecordEnd(&recording));
    OK(pennyRecordStart());
    OK(pennyAllReduce(&recorded, &again, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyRecordEnd(&recording));
    OK(pennyRecordingLaunch(recording, NULL));
    CHECK(sum == -1 && again == -1);
    OK(pennyGroupEnd());
    CHECK_INT(sum, ranks * (ranks - 1) / 2);
    CHECK_INT(again, ranks);
    OK(pennyRecordingDestroy(recording));
}

static void a_launch_on_a_communicator_that_is_gone_is_refused(void) {
    int word = 1, other = 1;
    pennyComm_t gone;
    pennyStream_t stream;
    pennyRecording_t recording;
    OK(pennyStreamCreate(&stream));
    OK(pennyCommDup(comm, &gone));
    OK(pennyRecordStart());
    OK(pennyAllReduce(&other, &other, 1, pennyInt, pennySum, comm, NULL));
    OK(pennyAllReduce(&word, &word, 1, pennyInt, pennySum, gone, NULL));
    OK(pennyRecordEnd(&recording));
    OK(pennyCommDestroy(gone));
    FAILS(pennyInvalidArgument, "not a live communicator", pennyRecordingLaunch(recording, stream));
    FAILS(pennyInvalidArgument, "not a live communicator", pennyRecordingLaunch(recording, NULL));
    OK(pennyStreamSynchronize(stream));
    CHECK(word == 1 && other == 1);
    OK(pennyRecordingDestroy(recording));
    FAILS(pennyInvalidArgument, "that is a stream", pennyRecordingLaunch((pennyRecording_t)(void *)stream, NULL));
    OK(pennyStreamDestroy(stream));
}

int main(void) {
    begin();
    comm = join();
    RUN(a_recorded_call_is_made_at_each_launch);
    RUN(calls_that_wait_for_each_other_are_made_together);
    RUN(launches_that_are_queued_outlive_the_recording);
    RUN(a_recording_keeps_the_factor_of_an_operation_that_is_gone);
    RUN(arguments_are_checked_when_a_call_is_recorded);
    RUN(a_recording_is_closed_by_its_own_end);
    RUN(a_recording_does_not_disturb_the_group_that_is_open);
    RUN(a_launch_on_a_communicator_that_is_gone_is_refused);
    OK(pennyCommDestroy(comm));
    return 0;
}
