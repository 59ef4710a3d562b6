// All values of a square game of up to 16 cells by layers of equally many stones, the last first. A position stands at the
// class of the mover's set under the 8 symmetries, and the rank of the other's among sets as large of the other cells.
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

static int64_t size, sets, classes[17], offset[17][17], choose[17][17];
static uint32_t *rank_of, *class_of, *members[17], *image;
static uint8_t *symmetry_of, *wins;
static double *values;

static int64_t at(uint32_t own, uint32_t other) {
    int a = __builtin_popcount(own), b = __builtin_popcount(other);
    int64_t s = symmetry_of[own], free = _pext_u32(image[s * sets + other], ~image[s * sets + own] & (sets - 1));
    return offset[a][b] + class_of[own] * choose[size - a][b] + rank_of[free];
}

double value(int64_t own, int64_t other) { return values[at(own, other)]; }

void layers(int64_t cells, int64_t lines, const int64_t *masks, const int64_t *moves, double skip) {
    size = cells, sets = (int64_t)1 << size;
    if (!values) {
        rank_of = malloc(4 * sets), class_of = malloc(4 * sets), image = malloc(4 * 8 * sets);
        symmetry_of = malloc(sets), wins = malloc(sets);
        for (int a = 0; a <= size; a++) members[a] = malloc(4 * sets);
    }
    for (int n = 0; n <= size; n++)
        for (int k = 0; k <= size; k++) choose[n][k] = k == 0 ? 1 : n == 0 ? 0 : choose[n - 1][k - 1] + choose[n - 1][k];
    int64_t count[17] = {0};
    for (int64_t set = 0; set < sets; set++) {
        rank_of[set] = count[__builtin_popcount(set)]++;
        wins[set] = 0;
        for (int64_t i = 0; i < lines; i++) wins[set] |= (set & masks[i]) == masks[i];
        for (int64_t s = 0; s < 8; s++) {
            uint32_t to = 0;
            for (int64_t cell = 0; cell < size; cell++)
                if (set >> cell & 1) to |= 1u << moves[s * size + cell];
            image[s * sets + set] = to;
        }
    }
    for (int a = 0; a <= size; a++) classes[a] = 0;
    for (int64_t set = 0; set < sets; set++) {  // the least image stands for all
        int64_t least = 0;
        for (int64_t s = 1; s < 8; s++)
            if (image[s * sets + set] < image[least * sets + set]) least = s;
        symmetry_of[set] = least;
        int a = __builtin_popcount(set);
        uint32_t representative = image[least * sets + set];
        if (representative == set) members[a][classes[a]] = set, class_of[set] = classes[a]++;
        else class_of[set] = class_of[representative];
    }
    int64_t total = 0;
    for (int a = 0; a <= size; a++)
        for (int b = 0; a + b <= size; b++) offset[a][b] = total, total += classes[a] * choose[size - a][b];
    if (!values) values = malloc(8 * total);
    for (int stones = size - 1; stones >= 0; stones--)
        for (int a = 0; a <= stones; a++) {
            int b = stones - a;
            for (int64_t class = 0; class < classes[a]; class++) {
                uint32_t own = members[a][class], rest = ~own & (sets - 1);
                double *row = values + offset[a][b] + class * choose[size - a][b];
                uint32_t packed = ((uint32_t)1 << b) - 1;
                for (int64_t rank = 0; rank < choose[size - a][b]; rank++) {
                    uint32_t other = _pdep_u32(packed, rest), free = rest & ~other;
                    double best = -2;
                    if (wins[own] || wins[other]) best = wins[own] - wins[other];
                    else
                        for (uint32_t left = free; left; left &= left - 1) {
                            uint32_t after = own | (left & -left);
                            double value = wins[after] ? 1
                                           : stones + 1 == size
                                               ? 0
                                               : skip * values[at(after, other)] - (1 - skip) * values[at(other, after)];
                            if (value > best) best = value;
                        }
                    row[rank] = best;
                    uint32_t low = packed & -packed, up = packed + low;  // the next set as large
                    if (low) packed = up | (((packed ^ up) / low) >> 2);
                }
            }
        }
}
