/* What is not there says so, under both names. */
#include "check.h"

typedef struct {
    int nRanks, rank, stride;
} team;
typedef struct {
    size_t size;
    unsigned magic, version;
    int rank, nRanks, cudaDev, nvmlDev;
    char deviceApiSupport, multimemSupport;
    int ginType, nLsaTeams;
    char hostRmaSupport;
    int railedGinType;
    char later[8];
} properties;

/* The host's part of the device interface, whose headers are not Penny's. */
#define DECLARE(function, ...)                                                                                         \
    ncclResult_t function(__VA_ARGS__);                                                                                \
    ncclResult_t p##function(__VA_ARGS__)
DECLARE(ncclDevCommCreate, ncclComm_t, const void *, void *);
DECLARE(ncclDevCommDestroy, ncclComm_t, const void *);
DECLARE(ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void **);
DECLARE(ncclGetMultimemDevicePointer, ncclWindow_t, size_t, void *, void **);
DECLARE(ncclGetLsaDevicePointer, ncclWindow_t, size_t, int, void **);
DECLARE(ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void **);
DECLARE(ncclLsaBarrierCreateRequirement, team, int, void *, void *);
DECLARE(ncclGinBarrierCreateRequirement, ncclComm_t, team, int, void *, void *);
DECLARE(ncclGinOutboxCreateRequirement, int, int, void *, void *);
DECLARE(ncclGinInboxA2ACreateRequirement, team, int, int, void *, void *);
DECLARE(ncclLLA2ACreateRequirement, int, int, void *, void *);
DECLARE(ncclCommQueryProperties, ncclComm_t, properties *);
int ncclLLA2ACalcSlots(int, int);
team ncclTeamWorld(ncclComm_t), ncclTeamLsa(ncclComm_t), ncclTeamRail(ncclComm_t);
int ncclTeamRankToWorld(ncclComm_t, team, int), ncclTeamRankToLsa(ncclComm_t, team, int);

static ncclComm_t comm;
static ncclUniqueId id;
static team of = {1, 0, 1};
static void *any;

#define ABSENT(text, function, ...)                                                                                    \
    FAILS(ncclInvalidUsage, text, function(__VA_ARGS__));                                                              \
    FAILS(ncclInvalidUsage, text, p##function(__VA_ARGS__))

static void there_is_no_device_interface(void) {
    const char *say = "no device interface";
    ABSENT(say, ncclDevCommCreate, comm, NULL, any);
    ABSENT(say, ncclDevCommDestroy, comm, NULL);
    ABSENT(say, ncclGetLsaMultimemDevicePointer, NULL, 0, &any);
    ABSENT(say, ncclGetMultimemDevicePointer, NULL, 0, NULL, &any);
    ABSENT(say, ncclGetLsaDevicePointer, NULL, 0, 0, &any);
    ABSENT(say, ncclGetPeerDevicePointer, NULL, 0, 0, &any);
    ABSENT(say, ncclLsaBarrierCreateRequirement, of, 1, any, any);
    ABSENT(say, ncclGinBarrierCreateRequirement, comm, of, 1, any, any);
    ABSENT(say, ncclGinOutboxCreateRequirement, 1, 1, any, any);
    ABSENT(say, ncclGinInboxA2ACreateRequirement, of, 1, 1, any, any);
    ABSENT(say, ncclLLA2ACreateRequirement, 1, 1, any, any);
    CHECK_INT(ncclLLA2ACalcSlots(1, 1), 0);
}

static void a_program_can_ask_first(void) {
    ncclComm_t two[2];
    OK(ncclCommInitAll(two, 2, NULL));
    properties told;
    memset(&told, 0x77, sizeof told);
    told.size = offsetof(properties, later);
    told.magic = 0xcafebeef;
    OK(ncclCommQueryProperties(two[1], &told));
    CHECK_INT(told.rank, 1);
    CHECK_INT(told.nRanks, 2);
    CHECK_INT(told.cudaDev, 1);
    CHECK(!told.deviceApiSupport && !told.multimemSupport && told.hostRmaSupport);
    CHECK_INT(told.ginType, 0);
    CHECK_INT(told.nLsaTeams, 1);
    CHECK_INT(told.railedGinType, 0);
    CHECK_INT(told.later[0], 0x77);
    /* A shorter struct is written as far as it goes. */
    told.size = offsetof(properties, nRanks);
    told.rank = told.nRanks = -1;
    OK(ncclCommQueryProperties(two[1], &told));
    CHECK_INT(told.rank, 1);
    CHECK_INT(told.nRanks, -1);
    told.magic = 1;
    FAILS(ncclInvalidArgument, "props", ncclCommQueryProperties(two[1], &told));
    team world = ncclTeamWorld(two[1]), here = ncclTeamLsa(two[1]), rail = ncclTeamRail(two[1]);
    CHECK(world.nRanks == 2 && world.rank == 1 && world.stride == 1);
    CHECK(here.nRanks == 2 && here.rank == 1 && here.stride == 1);
    CHECK(rail.nRanks == 1 && rail.rank == 0 && rail.stride == 2);
    CHECK_INT(ncclTeamRankToWorld(two[1], world, 0), 0);
    CHECK_INT(ncclTeamRankToWorld(two[1], rail, 0), 1);
    CHECK_INT(ncclTeamRankToLsa(two[1], here, 1), 1);
    for (int i = 0; i < 2; i++) OK(ncclCommDestroy(two[i]));
}

int main(void) {
    begin();
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    RUN(there_is_no_device_interface);
    RUN(a_program_can_ask_first);
    OK(ncclCommDestroy(comm));
    return 0;
}
