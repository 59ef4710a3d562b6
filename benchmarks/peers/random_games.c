// Games of random moves by the rules of ttt_envs, one after another, with the random numbers of ttt_envs.random_games.
#include <stdint.h>

enum { SKIP, OPPONENT };
enum { DRAW = 2, NOT_OVER = -1, SMALL = 25 };

typedef struct { int64_t rows, columns, win_length; double skip_chance; } Game;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static inline uint64_t splitmix64(uint64_t state, uint64_t n) {
    uint64_t z = state + (n + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline double uniform(uint64_t episode_key, int64_t stream, int64_t n) {
    return (double)(splitmix64(episode_key, (uint64_t)((stream << 32) + n)) >> 11) * 0x1p-53;
}

static inline int completes_line(const int8_t *cells, int64_t cell, Game game) {
    int64_t rows = game.rows, columns = game.columns, win_length = game.win_length;
    int8_t stone = cells[cell];
    if (rows * columns <= SMALL) {
        int64_t bits = 0, start = 0;
        for (int64_t row = 0; row < rows; row++) {
            int64_t row_bits = 0;
            for (int64_t column = 0; column < columns; column++)
                row_bits |= (int64_t)(cells[start + column] == stone) << column;
            bits |= row_bits << (row * (columns + 1));
            start += columns;
        }
        int64_t across = bits, upright = bits, falling = bits, rising = bits;
        for (int64_t length = 1; length < win_length; length++) {
            across &= across >> 1;
            upright &= upright >> (columns + 1);
            falling &= falling >> (columns + 2);
            rising &= rising >> columns;
        }
        return (across | upright | falling | rising) != 0;
    }
    int64_t up = cell / columns, left = cell - up * columns, down = rows - 1 - up, right = columns - 1 - left;
    for (int direction = 0; direction < 4; direction++) {
        int64_t step, before, after;
        if (direction == 0) step = 1, before = left, after = right;
        else if (direction == 1) step = columns, before = up, after = down;
        else if (direction == 2) step = columns + 1, before = smaller(up, left), after = smaller(down, right);
        else step = columns - 1, before = smaller(up, right), after = smaller(down, left);
        if (before + after + 1 < win_length) continue;
        int64_t first = cell - before * step, last = cell + after * step;
        int64_t low = cell - step, high = cell + step;
        while (low >= first && cells[low] == stone) low -= step;
        while (high <= last && cells[high] == stone) high += step;
        if (high - low > win_length * step) return 1;
    }
    return 0;
}

int64_t random_games(
    int64_t games, uint64_t key, int64_t rows, int64_t columns, int64_t win_length, double skip_chance, int64_t *results
) {
    Game game = {rows, columns, win_length, skip_chance};
    int64_t size = rows * columns, moves = 0;
    int8_t cells[19 * 19];
    int64_t empty[19 * 19];
    for (int64_t i = 0; i < games; i++) {
        uint64_t episode_key = splitmix64(key, (uint64_t)i);
        for (int64_t cell = 0; cell < size; cell++) cells[cell] = 0;
        for (int64_t cell = 0; cell < size; cell++) empty[cell] = cell;
        int64_t mover = 0, outcome = NOT_OVER, stones = 0;
        while (outcome == NOT_OVER) {
            int64_t left = size - stones;
            int64_t chosen = (int64_t)(uniform(episode_key, OPPONENT, stones) * (double)left);
            int64_t cell = empty[chosen];
            empty[chosen] = empty[left - 1];
            cells[cell] = (int8_t)(mover + 1);
            int64_t own = skip_chance > 0 ? stones + 1 : stones / 2 + 1;
            if (own >= win_length && completes_line(cells, cell, game)) outcome = mover;
            else if (stones + 1 == size) outcome = DRAW;
            else if (!(skip_chance > 0 && uniform(episode_key, SKIP, stones) < skip_chance)) mover = 1 - mover;
            stones++;
        }
        moves += stones;
        results[outcome]++;
    }
    return moves;
}
