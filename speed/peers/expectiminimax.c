// Expectiminimax as it is written down: every move, either turn. Stones in windows are counted as they come and go.
#include <stdint.h>

typedef struct {
    int64_t cells, compared, length, through, empty, nodes;  // the first windows are compared at the horizon
    double skip;
    const int64_t *lists;  // [cells][through]: the windows through a cell, -1 after the last
    int8_t board[361];
    int8_t stones[2][2048];  // of either player in each window
    int32_t open[2][20];  // compared windows that are open to a player, by the number of stones in them
} Search;

static int put(Search *s, int64_t cell, int mover) {
    int full = 0;
    for (int64_t i = 0; i < s->through && s->lists[cell * s->through + i] >= 0; i++) {
        int64_t window = s->lists[cell * s->through + i];
        int mine = s->stones[mover][window]++, theirs = s->stones[1 - mover][window];
        full |= mine + 1 == s->length;
        if (window < s->compared) {
            if (theirs == 0) s->open[mover][mine]--, s->open[mover][mine + 1]++;
            if (mine == 0) s->open[1 - mover][theirs]--;
        }
    }
    s->board[cell] = mover + 1, s->empty--, s->nodes++;
    return full;
}

static void take(Search *s, int64_t cell, int mover) {
    for (int64_t i = 0; i < s->through && s->lists[cell * s->through + i] >= 0; i++) {
        int64_t window = s->lists[cell * s->through + i];
        int mine = --s->stones[mover][window], theirs = s->stones[1 - mover][window];
        if (window < s->compared) {
            if (theirs == 0) s->open[mover][mine]++, s->open[mover][mine + 1]--;
            if (mine == 0) s->open[1 - mover][theirs]++;
        }
    }
    s->board[cell] = 0, s->empty++;
}

static int best(const Search *s, int player) {
    int most = s->length;
    while (most > 0 && s->open[player][most] == 0) most--;
    return most;
}

static double value(Search *s, int mover, int64_t depth) {  // to the mover
    double highest = -1e9;
    for (int64_t cell = 0; cell < s->cells; cell++) {
        if (s->board[cell]) continue;
        double found = 0;
        if (put(s, cell, mover)) {
            found = depth;
        } else if (s->empty == 0) {
            found = 0;
        } else if (depth == 1) {
            int mine = best(s, mover), theirs = best(s, 1 - mover);
            found = 0.5 * ((mine > theirs) - (mine < theirs));
        } else {
            found = -(1 - s->skip) * value(s, 1 - mover, depth - 1);
            if (s->skip > 0) found += s->skip * value(s, mover, depth - 1);
        }
        take(s, cell, mover);
        if (found > highest) highest = found;
    }
    return highest;
}

double search(int64_t cells, int64_t compared, int64_t length, int64_t through, const int64_t *lists, double skip,
              int64_t depth, int64_t *nodes) {
    static Search s;
    s = (Search){cells, compared, length, through, cells, 0, skip, lists};
    s.open[0][0] = s.open[1][0] = compared;
    double found = value(&s, 0, depth);
    *nodes = s.nodes;
    return found;
}
