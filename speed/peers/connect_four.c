// Connect Four on 6 rows x 7 columns: the same alpha-beta search as baselines/connect_four, written as recursion in C.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 7, HEIGHT = ROWS + 1, CELLS = ROWS * COLUMNS };

static uint64_t BOTTOM, BOARD;
static uint64_t *keys;
static int8_t (*bounds)[2];
static uint64_t size;
static int64_t nodes;

static uint64_t threats(uint64_t stones) {
    uint64_t found = (stones << 1) & (stones << 2) & (stones << 3);
    for (int step = HEIGHT - 1; step <= HEIGHT + 1; step++) {
        uint64_t before = (stones << step) & (stones << 2 * step), behind = (stones >> step) & (stones >> 2 * step);
        found |= before & ((stones << 3 * step) | (stones >> step));
        found |= behind & ((stones >> 3 * step) | (stones << step));
    }
    return found;
}

static uint64_t safe(uint64_t mask, uint64_t stops) {
    uint64_t possible = (mask + BOTTOM) & BOARD, forced = possible & stops;
    if (forced) {
        if (forced & (forced - 1)) return 0;
        possible = forced;
    }
    return possible & ~(stops >> 1);
}

static int negamax(uint64_t mine, uint64_t mask, uint64_t moves, int stones, int target) {
    nodes++;
    if (stones >= CELLS - 2) return 0;
    int low = -((CELLS - 2 - stones) / 2), high = (CELLS - 1 - stones) / 2;
    if (high < target) return high;
    if (low >= target) return low;
    uint64_t key = mine + mask, place = key % size;
    if (keys[place] == key) {
        if (bounds[place][1] < target) return bounds[place][1];
        if (bounds[place][0] >= target) return bounds[place][0];
        if (bounds[place][0] > low) low = bounds[place][0];
        if (bounds[place][1] < high) high = bounds[place][1];
    }
    uint64_t move[COLUMNS], reply[COLUMNS];
    int rank[COLUMNS], count = 0;
    for (int i = 0; i < COLUMNS; i++) {
        int column = COLUMNS / 2 + (1 - 2 * (i & 1)) * ((i + 1) / 2);
        uint64_t one = moves & ((1ull << ROWS) - 1) << column * HEIGHT;
        if (!one) continue;
        uint64_t made = threats(mine | one) & BOARD & ~(mask | one), answers = safe(mask | one, made);
        if (!answers) return high;
        int here = __builtin_popcountll(made), at = count++;
        for (; at > 0 && rank[at - 1] < here; at--)
            move[at] = move[at - 1], reply[at] = reply[at - 1], rank[at] = rank[at - 1];
        move[at] = one, reply[at] = answers, rank[at] = here;
    }
    int best = low;
    for (int i = 0; i < count && best < target; i++) {
        int score = -negamax(mine ^ mask, mask | move[i], reply[i], stones + 1, 1 - target);
        if (score > best) best = score;
    }
    keys[place] = key;
    bounds[place][0] = best >= target ? best : low;
    bounds[place][1] = best >= target ? high : best;
    return best;
}

// Makes the table, of an odd number of entries.
void prepare(int64_t entries) {
    BOTTOM = BOARD = 0;
    for (int column = 0; column < COLUMNS; column++) BOTTOM |= 1ull << column * HEIGHT;
    BOARD = BOTTOM * ((1ull << ROWS) - 1);
    free(keys), free(bounds);
    size = (uint64_t)entries | 1;
    keys = calloc(size, sizeof *keys), bounds = calloc(size, sizeof *bounds);
}

// Returns the score of a position without a win in one move; adds the number of positions visited to `visited`.
int64_t solve(uint64_t mine, uint64_t mask, int64_t *visited) {
    int stones = __builtin_popcountll(mask), low = -((CELLS - stones) / 2), high = (CELLS + 1 - stones) / 2;
    uint64_t moves = safe(mask, threats(mine ^ mask) & BOARD & ~mask);
    nodes = 0;
    if (!moves) return low;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (middle <= 0 && low / 2 < middle) middle = low / 2;
        else if (middle >= 0 && high / 2 > middle) middle = high / 2;
        int score = negamax(mine, mask, moves, stones, middle + 1);
        if (score > middle) low = score;
        else high = score;
    }
    *visited += nodes;
    return low;
}

void clear(void) {
    memset(keys, 0, size * sizeof *keys);
    memset(bounds, 0, size * sizeof *bounds);
}
