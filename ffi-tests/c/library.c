/* src/ffi/library.rs: version, names of results, the last error. Needs no second rank. */
#include "check.h"

static void the_version_is_the_headers(void) {
    int version = 0;
    OK(pennyGetVersion(&version));
    CHECK_INT(version, PENNY_VERSION_CODE);
    CHECK_INT(version, PENNY_VERSION(PENNY_MAJOR, PENNY_MINOR, PENNY_PATCH));
    FAILS(pennyInvalidArgument, "version is NULL", pennyGetVersion(NULL));
}

static void every_result_has_a_sentence_of_its_own(void) {
    for (int a = 0; a < pennyNumResults; a++) {
        const char *text = pennyGetErrorString((pennyResult_t)a);
        CHECK(text != NULL && text[0] != '\0');
        CHECK(text == pennyGetErrorString((pennyResult_t)a));
        for (int b = 0; b < a; b++) CHECK(strcmp(text, pennyGetErrorString((pennyResult_t)b)) != 0);
    }
}

static void a_number_that_is_no_result_is_called_unknown(void) {
    const int numbers[] = {-1, pennyNumResults, 12345};
    for (int i = 0; i < 3; i++) CHECK(strstr(pennyGetErrorString((pennyResult_t)numbers[i]), "unknown") != NULL);
}

static void a_success_leaves_the_last_error(void) {
    int version;
    FAILS(pennyInvalidArgument, "version", pennyGetVersion(NULL));
    const char *before = pennyGetLastError(NULL);
    OK(pennyGetVersion(&version));
    CHECK(before == pennyGetLastError(NULL));
    CHECK(strstr(before, "pennyGetVersion: version is NULL") == before);
}

static void *no_error_yet(void *unused) {
    (void)unused;
    CHECK(strcmp(pennyGetLastError(NULL), "") == 0);
    return NULL;
}

static void another_thread_has_its_own_last_error(void) {
    pthread_t thread;
    FAILS(pennyInvalidArgument, "version", pennyGetVersion(NULL));
    CHECK(pthread_create(&thread, NULL, no_error_yet, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void the_last_error_of_a_made_up_handle_is_no_crash(void) {
    FAILS(pennyInvalidArgument, "", pennyCommDestroy((pennyComm_t)(uintptr_t)0xdeadbeefcafe));
    CHECK(strstr(pennyGetLastError((pennyComm_t)(uintptr_t)0xdeadbeefcafe), "pennyCommDestroy: ") != NULL);
    CHECK(strcmp(pennyGetLastError((pennyComm_t)(uintptr_t)0x1234), "") == 0);
}

int main(void) {
    begin();
    RUN(the_version_is_the_headers);
    RUN(every_result_has_a_sentence_of_its_own);
    RUN(a_number_that_is_no_result_is_called_unknown);
    RUN(a_success_leaves_the_last_error);
    RUN(another_thread_has_its_own_last_error);
    RUN(the_last_error_of_a_made_up_handle_is_no_crash);
    return 0;
}
