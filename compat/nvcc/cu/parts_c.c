#include "parts.h"

int of_c(int value) {
    int *class = &value; /* C, not C++ */
    return *class * value;
}
