/* NCCL's interface to its parameters knows the variables of NCCL that have an effect here. */
#include "check.h"

/* The keys of all parameters are `expected`, between commas. */
static void check_keys(const char **table, int length, const char *expected) {
    char keys[256] = "";
    for (int i = 0; i < length; i++) strcat(strcat(keys, i ? "," : ""), table[i]);
    CHECK(strcmp(keys, expected) == 0);
}

static void parameters_are_the_variables_that_have_an_effect(void) {
    ncclParamHandle_t algo = NULL, blocking = NULL;
    const char *text = NULL, *other = NULL, **table = NULL;
    int length = -1;
    int64_t number = 0;
    char bytes[8] = "";
    setenv("NCCL_ALGO", "Ring", 1);
    unsetenv("NCCL_COMM_BLOCKING");
    unsetenv("NCCL_DEBUG_FILE");
    OK(ncclParamBind(&algo, "NCCL_ALGO"));
    OK(pncclParamBind(&blocking, "NCCL_COMM_BLOCKING"));
    OK(ncclParamGetStr(algo, &text));
    CHECK(strcmp(text, "Ring") == 0);
    OK(ncclParamGetParameter("NCCL_DEBUG_FILE", &other, &length));
    CHECK(*other == 0 && length == 0 && strcmp(text, "Ring") == 0);
    OK(ncclParamGetParameter("NCCL_ALGO", &other, &length));
    CHECK(strcmp(other, "Ring") == 0 && length == 4);
    OK(ncclParamGetI64(blocking, &number));
    CHECK_INT(number, NCCL_CONFIG_UNDEF_INT);
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    OK(pncclParamGetI64(blocking, &number));
    CHECK_INT(number, 0);
    number = 7;
    OK(ncclParamGet(blocking, &number, sizeof number, &length));
    CHECK(number == 0 && length == sizeof number);
    OK(ncclParamGet(algo, bytes, 5, &length));
    CHECK(strcmp(bytes, "Ring") == 0 && length == 5);
    OK(ncclParamGetAllParameterKeys(&table, &length));
    check_keys(table, length, "NCCL_ALGO,NCCL_COMM_BLOCKING,NCCL_DEBUG,NCCL_DEBUG_FILE,NCCL_DEBUG_SUBSYS");
    ncclParamDumpAll();
    pncclParamDumpAll();
}

static void parameters_are_refused_where_they_do_not_fit(void) {
    ncclParamHandle_t algo, blocking, none = (ncclParamHandle_t)&none;
    const char *text = "before", **table;
    char bytes[8] = "";
    int length = 0;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    OK(ncclParamBind(&algo, "NCCL_ALGO"));
    OK(ncclParamBind(&blocking, "NCCL_COMM_BLOCKING"));
    FAILS(ncclInvalidArgument, "`NCCL_PROTO`, which has no effect", ncclParamBind(&none, "NCCL_PROTO"));
    CHECK(none == (ncclParamHandle_t)&none);
    FAILS(ncclInvalidArgument, "key is NULL", ncclParamBind(&none, NULL));
    FAILS(ncclInvalidArgument, "out is NULL", ncclParamBind(NULL, "NCCL_ALGO"));
    FAILS(ncclInvalidArgument, "no handle of ncclParamBind", ncclParamGetI64(none, &i64));
    FAILS(ncclInvalidArgument, "no handle of ncclParamBind", ncclParamGetStr(NULL, &text));
    FAILS(ncclInvalidArgument, "is text; use ncclParamGetStr", ncclParamGetI64(algo, &i64));
    FAILS(ncclInvalidArgument, "number of 64 bits; use ncclParamGetI64", ncclParamGetStr(blocking, &text));
    CHECK(strcmp(text, "before") == 0);
    FAILS(ncclInvalidArgument, "maxLen is 4; the value has 5 bytes", ncclParamGet(algo, bytes, 4, &length));
    CHECK(length == 5 && bytes[0] == 0);
    FAILS(ncclInvalidArgument, "maxLen is -1", pncclParamGet(algo, bytes, -1, &length));
    FAILS(ncclInvalidArgument, "has no effect", ncclParamGetParameter("PATH", &text, &length));
    CHECK(text == NULL && length == 0);
    FAILS(ncclInvalidArgument, "tableLen is NULL", ncclParamGetAllParameterKeys(&table, NULL));
#define NUMBER(function, at)                                                                                           \
    FAILS(ncclInvalidArgument, "number of 64 bits; use ncclParamGetI64", function(blocking, &at));                     \
    FAILS(ncclInvalidArgument, "is text; use ncclParamGetStr", p##function(algo, &at))
    NUMBER(ncclParamGetI8, i8);
    NUMBER(ncclParamGetI16, i16);
    NUMBER(ncclParamGetI32, i32);
    NUMBER(ncclParamGetU8, u8);
    NUMBER(ncclParamGetU16, u16);
    NUMBER(ncclParamGetU32, u32);
    NUMBER(ncclParamGetU64, u64);
}

int main(void) {
    begin();
    RUN(parameters_are_the_variables_that_have_an_effect);
    RUN(parameters_are_refused_where_they_do_not_fit);
    return 0;
}
