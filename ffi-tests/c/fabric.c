/* src/ffi/fabric.rs: the declared machine. */
#include "check.h"

enum { COUNT = 5000 };
static pennyComm_t plain, comm;

static pennyComm_t join_with(const char *fabric, const char *clock, const char *algo) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t made = NULL;
    config.fabric = fabric;
    config.fabricClock = clock;
    config.algo = algo;
    OK(pennyCommInitRankConfig(&made, ranks, shared_id(), rank, &config));
    return made;
}

static uint64_t now(void) {
    uint64_t ps = UINT64_MAX;
    OK(pennyFabricNow(comm, &ps));
    return ps;
}

static int sum_of_ranks(void) { return ranks * (ranks - 1) / 2; }

static void reduce_on(pennyComm_t on) {
    static int mine[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++) mine[i] = rank + i, sum[i] = -1;
    OK(pennyAllReduce(mine, sum, COUNT, pennyInt, pennySum, on, NULL));
    for (int i = 0; i < COUNT; i++) CHECK_INT(sum[i], sum_of_ranks() + ranks * i);
}

static void without_a_machine_every_function_is_refused(void) {
    uint64_t ps = 7;
    size_t count = 7;
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyFabricNow(plain, &ps));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyFabricAdvance(plain, 1));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyFabricAdvanceTo(plain, 1));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyFabricInfo(plain, &info));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyFabricCounters(plain, NULL, &count));
    CHECK(ps == 7 && count == 7 && info.ports == 0);
}

static void a_group_on_no_machine_is_closed_and_not_priced(void) {
    int mine = rank, sum = -1;
    pennySimInfo_t sim = PENNY_SIM_INFO_INITIALIZER;
    OK(pennyGroupStart());
    OK(pennyAllReduce(&mine, &sum, 1, pennyInt, pennySum, plain, NULL));
    FAILS(pennyInvalidUsage, "PENNY_FABRIC", pennyGroupSimulateEnd(&sim));
    CHECK_INT(sum, -1);
    FAILS(pennyInvalidUsage, "pennyGroupStart", pennyGroupEnd());
}

static void made_up_handles_and_null_are_refused(void) {
    uint64_t ps = 0;
    size_t count = 0;
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    const pennyComm_t wrong[] = {NULL, (pennyComm_t)(uintptr_t)0xdeadbeefcafe};
    for (int i = 0; i < 2; i++) {
        FAILS(pennyInvalidArgument, "comm", pennyFabricNow(wrong[i], &ps));
        FAILS(pennyInvalidArgument, "comm", pennyFabricAdvance(wrong[i], 1));
        FAILS(pennyInvalidArgument, "comm", pennyFabricAdvanceTo(wrong[i], 1));
        FAILS(pennyInvalidArgument, "comm", pennyFabricInfo(wrong[i], &info));
        FAILS(pennyInvalidArgument, "comm", pennyFabricCounters(wrong[i], NULL, &count));
    }
    FAILS(pennyInvalidArgument, "ps is NULL", pennyFabricNow(comm, NULL));
    FAILS(pennyInvalidArgument, "info is NULL", pennyFabricInfo(comm, NULL));
    FAILS(pennyInvalidArgument, "count is NULL", pennyFabricCounters(comm, NULL, NULL));
    OK(pennyGroupStart());
    FAILS(pennyInvalidArgument, "simInfo is NULL", pennyGroupSimulateEnd(NULL));
    OK(pennyGroupEnd());
}

static void structs_without_their_initializer_are_refused(void) {
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    pennySimInfo_t sim = PENNY_SIM_INFO_INITIALIZER;
    info.magic = 1;
    FAILS(pennyInvalidArgument, "PENNY_FABRIC_INFO_INITIALIZER", pennyFabricInfo(comm, &info));
    info = (pennyFabricInfo_t)PENNY_FABRIC_INFO_INITIALIZER;
    info.size = 3;
    FAILS(pennyInvalidArgument, "size 3", pennyFabricInfo(comm, &info));
    sim.magic = PENNY_FABRIC_INFO_MAGIC;
    OK(pennyGroupStart());
    FAILS(pennyInvalidArgument, "PENNY_SIM_INFO_INITIALIZER", pennyGroupSimulateEnd(&sim));
    CHECK(sim.estimatedPs == 0);
}

static void an_older_structs_end_is_not_written_past(void) {
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    info.size = offsetof(pennyFabricInfo_t, places);
    info.places = 12345;
    OK(pennyFabricInfo(comm, &info));
    CHECK(strcmp(info.name, "dgx-h100") == 0 && info.places == 12345);
}

static void the_machine_tells_what_it_is(void) {
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    OK(pennyFabricInfo(comm, &info));
    CHECK(strcmp(info.name, "dgx-h100") == 0);
    CHECK_INT(info.places, 8);
    CHECK(info.ports > 0 && info.hash != 0 && info.dilation == 0 && info.slip == 0 && info.valid == 1);
    CHECK(info.size == sizeof info && info.magic == PENNY_FABRIC_INFO_MAGIC);
}

static void the_clock_moves_as_declared_and_never_back(void) {
    uint64_t begun = now();
    OK(pennyFabricAdvance(comm, 5));
    CHECK(now() == begun + 5000);
    OK(pennyFabricAdvanceTo(comm, begun + 7000));
    OK(pennyFabricAdvanceTo(comm, begun));
    CHECK(now() == begun + 7000);
    FAILS(pennyInvalidArgument, "ns is", pennyFabricAdvance(comm, UINT64_MAX));
    FAILS(pennyInvalidArgument, "2^64", pennyFabricAdvance(comm, UINT64_MAX / 1000));
    CHECK(now() == begun + 7000);
}

static void a_loop_that_waits_for_a_time_ends(void) {
    uint64_t until = now() + 3000000;
    while (now() < until) continue;
    OK(pennyBarrier(comm, NULL));
}

static void a_call_takes_what_its_simulation_said(void) {
    static int mine[COUNT], sum[COUNT];
    pennySimInfo_t sim = PENNY_SIM_INFO_INITIALIZER;
    uint64_t moment = 1000000000000, latest = 0, took;
    OK(pennyGroupStart());
    OK(pennyGroupStart());
    OK(pennyAllReduce(mine, sum, COUNT, pennyInt, pennySum, comm, NULL));
    OK(pennyGroupSimulateEnd(&sim));
    CHECK(sim.estimatedPs == 0);
    OK(pennyGroupSimulateEnd(&sim));
    CHECK((sim.estimatedPs > 0) == (ranks > 1) && sim.version == PENNY_VERSION_CODE);
    double us = (double)sim.estimatedPs * 1e-6, told = (double)sim.estimatedTime;
    CHECK(told >= us * 0.999999 && told <= us * 1.000001);
    OK(pennyFabricAdvanceTo(comm, moment));
    reduce_on(comm);
    took = now() - moment;
    OK(pennyAllReduce(&took, &latest, 1, pennyUint64, pennyMax, comm, NULL));
    CHECK(latest == sim.estimatedPs);
}

static void a_transfer_takes_time_at_both_ends(void) {
    int peer = rank ^ 1, word = rank, got = -1;
    uint64_t before = now();
    if (ranks == 1) return;
    OK(pennyGroupStart());
    OK(pennySend(&word, 1, pennyInt, peer, comm, NULL));
    OK(pennyRecv(&got, 1, pennyInt, peer, comm, NULL));
    OK(pennyGroupEnd());
    CHECK_INT(got, peer);
    CHECK(now() > before);
}

static void counters_tell_what_passed_each_port(void) {
    static pennyFabricPort_t ports[256];
    size_t count = 0, room, carried = 0, first = 1;
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    reduce_on(comm);
    OK(pennyFabricInfo(comm, &info));
    OK(pennyFabricCounters(comm, NULL, &count));
    CHECK_INT(count, info.ports);
    CHECK(count <= 256);
    room = 256;
    OK(pennyFabricCounters(comm, ports, &room));
    CHECK(room == count);
    for (size_t i = 0; i < count; i++) {
        CHECK(ports[i].name[0] != '\0' && (ports[i].messages > 0 || ports[i].busyPs == 0));
        CHECK(ports[i].errors == 0 && ports[i].resends == 0 && ports[i].downPs == 0);
        carried += ports[i].bytes;
    }
    CHECK(ranks == 1 ? carried == 0 : carried >= COUNT * sizeof(int));
    strcpy(ports[1].name, "mine");
    OK(pennyFabricCounters(comm, ports, &first));
    CHECK(first == count && strcmp(ports[1].name, "mine") == 0);
}

static void all_ranks_see_one_account(void) {
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    uint64_t mine[2], most[2], least[2];
    OK(pennyBarrier(comm, NULL));
    OK(pennyFabricInfo(comm, &info));
    mine[0] = info.hash, mine[1] = info.calls;
    CHECK(info.late == 0 && info.trace != 0);
    OK(pennyBarrier(plain, NULL));
    OK(pennyAllReduce(mine, most, 2, pennyUint64, pennyMax, plain, NULL));
    OK(pennyAllReduce(mine, least, 2, pennyUint64, pennyMin, plain, NULL));
    CHECK(most[0] == least[0] && most[1] == least[1]);
}

static void a_paced_clock_takes_the_time_that_it_tells(void) {
    pennyFabricInfo_t info = PENNY_FABRIC_INFO_INITIALIZER;
    pennyComm_t paced = join_with("dgx-h100:nodes=2", "paced:10", "allreduce:ring");
    reduce_on(paced);
    OK(pennyFabricInfo(paced, &info));
    CHECK(strcmp(info.name, "dgx-h100:nodes=2") == 0 && info.dilation == 10);
    CHECK(info.neededDilation >= 0 && info.valid == (info.slip <= 0.01));
    /* Fabric picoseconds, ten times slower, in nanoseconds. */
    CHECK(info.askedNs <= info.fabricPs / 100 + 2 && info.fabricPs / 100 <= info.askedNs + 2);
    OK(pennyCommDestroy(paced));
}

static void wrong_settings_name_the_remedy(void) {
    pennyConfig_t config = PENNY_CONFIG_INITIALIZER;
    pennyComm_t made = NULL;
    pennyUniqueId id = shared_id();
    config.fabric = "dgx-h1000";
    FAILS(pennyInvalidArgument, "dgx-h100,", pennyCommInitRankConfig(&made, ranks, id, rank, &config));
    config.fabric = "dgx-h100:nodes";
    FAILS(pennyInvalidArgument, "nodes=2", pennyCommInitRankConfig(&made, ranks, id, rank, &config));
    config.fabric = "dgx-h100";
    config.fabricClock = "real";
    FAILS(pennyInvalidArgument, "paced:1000", pennyCommInitRankConfig(&made, ranks, id, rank, &config));
    config.fabric = NULL;
    config.fabricClock = "virtual";
    FAILS(pennyInvalidArgument, "PENNY_FABRIC", pennyCommInitRankConfig(&made, ranks, id, rank, &config));
    config.fabricClock = NULL;
    config.algo = "allreduce:rung";
    FAILS(pennyInvalidArgument, "rung", pennyCommInitRankConfig(&made, ranks, id, rank, &config));
    CHECK(made == NULL);
}

int main(void) {
    begin();
    plain = join();
    RUN(without_a_machine_every_function_is_refused);
    RUN(a_group_on_no_machine_is_closed_and_not_priced);
    comm = join_with("dgx-h100", NULL, "ring");
    RUN(made_up_handles_and_null_are_refused);
    RUN(structs_without_their_initializer_are_refused);
    RUN(an_older_structs_end_is_not_written_past);
    RUN(the_machine_tells_what_it_is);
    RUN(the_clock_moves_as_declared_and_never_back);
    RUN(a_loop_that_waits_for_a_time_ends);
    RUN(a_call_takes_what_its_simulation_said);
    RUN(a_transfer_takes_time_at_both_ends);
    RUN(counters_tell_what_passed_each_port);
    RUN(all_ranks_see_one_account);
    RUN(a_paced_clock_takes_the_time_that_it_tells);
    RUN(wrong_settings_name_the_remedy);
    OK(pennyCommDestroy(comm));
    OK(pennyCommDestroy(plain));
    return 0;
}
