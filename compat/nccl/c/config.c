/* Settings of every size and version. */
#include "check.h"

/* A struct of any size and version: fields beyond are noise. */
static ncclResult_t join_with(size_t size, unsigned version, ncclConfig_t *config, ncclComm_t *comm) {
    config->size = size;
    config->version = version;
    *comm = NULL;
    return ncclCommInitRankConfig(comm, processes, shared_id(), process, config);
}

static void join_and_leave(size_t size, unsigned version, ncclConfig_t *config) {
    ncclComm_t comm;
    OK(join_with(size, version, config, &comm));
    int one = 1, sum = 0;
    OK(ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, comm, NULL));
    CHECK_INT(sum, processes);
    OK(ncclCommDestroy(comm));
}

static ncclConfig_t noise(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memset((char *)&config + 16, 0x77, sizeof config - 16);
    return config;
}

static void fields_have_their_defaults(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECK_INT(config.size, sizeof config);
    CHECK_INT(config.blocking, NCCL_CONFIG_UNDEF_INT);
    CHECK_INT(config.nvlsCTAs, NCCL_CONFIG_UNDEF_INT);
    CHECK(config.netName == NULL && config.commName == NULL);
    join_and_leave(sizeof config, NCCL_VERSION_CODE, &config);
}

static void fields_that_do_not_matter_are_accepted(void) {
    ncclConfig_t config = noise();
    config.blocking = 1;
    config.netName = "Socket";
    config.commName = "name";
    join_and_leave(sizeof config, NCCL_VERSION_CODE, &config);
}

static void older_structs_end_earlier(void) {
    /* 2.14: blocking alone, and padding behind it. */
    ncclConfig_t config = noise();
    config.blocking = 1;
    join_and_leave(24, 21400, &config);
    /* 2.17 to 2.26 have no name: its bytes are not read. */
    join_and_leave(48, 21700, &config);
    join_and_leave(sizeof config, 22600, &config);
    /* Before blocking, and without room for it. */
    config = noise();
    join_and_leave(sizeof config, 21300, &config);
    join_and_leave(16, NCCL_VERSION_CODE, &config);
}

static void newer_structs_are_longer(void) {
    struct {
        ncclConfig_t known;
        char later[64];
    } config;
    memset(&config, 0x77, sizeof config);
    config.known = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    join_and_leave(sizeof config, 29900, &config.known);
}

static void what_is_no_config_is_refused(void) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    config.magic++;
    FAILS(ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER", ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    config.magic--;
    config.size = 8;
    FAILS(ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER", ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    config.blocking = 2;
    FAILS(ncclInvalidArgument, "config.blocking is 2", ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    CHECK(comm == NULL);
}

int main(void) {
    begin();
    RUN(fields_have_their_defaults);
    RUN(fields_that_do_not_matter_are_accepted);
    RUN(older_structs_end_earlier);
    RUN(newer_structs_are_longer);
    RUN(what_is_no_config_is_refused);
    return 0;
}
