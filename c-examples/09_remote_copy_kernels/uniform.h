/* The numbers that jax.random.uniform(jax.random.key(0), shape) had when the guide was written, one by one.
 *
 *     counters   0 1 2 ... n-1, halved:  (0, n/2) (1, n/2 + 1) ...     each pair through Threefry-2x32 of 20 rounds, key (0, 0)
 *     bits       the first words of all pairs, then the second words
 *     number     the upper 23 bits as a mantissa, which gives 1 to 2, minus 1
 *
 * Threefry is the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
 * (2011): any element costs the same, whatever came before, so every rank makes just its own. */
#ifndef UNIFORM_H
#define UNIFORM_H

#include <stdint.h>
#include <string.h>

static void threefry(uint32_t x[2]) {
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t key[3] = {0, 0, 0x1bd11bda}; /* the third is the xor of the others and a constant */
    x[0] += key[0];
    x[1] += key[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int by = turns[group % 2][i];
            x[0] += x[1];
            x[1] = (x[1] << by | x[1] >> (32 - by)) ^ x[0];
        }
        x[0] += key[(group + 1) % 3];
        x[1] += key[(group + 2) % 3] + group + 1;
    }
}

/* Element i of n, which is even. */
static float uniform(uint64_t i, uint64_t n) {
    uint64_t half = n / 2, first = i % half;
    uint32_t x[2] = {(uint32_t)first, (uint32_t)(first + half)};
    threefry(x);
    uint32_t bits = x[i / half] >> 9 | 0x3f800000;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number - 1.0f;
}

#endif
