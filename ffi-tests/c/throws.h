// What a call of the C++ interface throws. Include it after cases.h.
#include <penny.hpp>

#include <string>

// The call throws a penny::error of this code whose sentence has the text.
#define THROWS(expected, text, call)                                                                       \
    do {                                                                                                   \
        pennyResult_t code_ = pennySuccess;                                                                \
        std::string said_;                                                                                 \
        try {                                                                                              \
            call;                                                                                          \
        } catch (const penny::error &error) {                                                              \
            code_ = error.code();                                                                          \
            said_ = error.what();                                                                          \
        }                                                                                                  \
        if (code_ != (expected)) FAIL("%s: %d, not %s: %s", #call, (int)code_, #expected, said_.c_str());  \
        if (said_.find(text) == std::string::npos) FAIL("\"%s\" does not say \"%s\"", said_.c_str(), text); \
    } while (0)
