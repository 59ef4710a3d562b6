// All values of a game, one board after another from the highest base-3 key to the lowest.
#include <stdint.h>

void sweep(int64_t size, int64_t lines, const int64_t *masks, double skip, double *after) {
    int64_t powers[18] = {1}, stones[2] = {0, 0};
    for (int64_t cell = 0; cell < size; cell++) powers[cell + 1] = 3 * powers[cell];
    double *by_first = after, *by_second = after + powers[size];
    int8_t cells[17];
    for (int64_t cell = 0; cell < size; cell++) cells[cell] = 2, stones[1] |= (int64_t)1 << cell;
    for (int64_t key = powers[size] - 1; key >= 0; key--) {
        int won = 0, lost = 0;
        for (int64_t i = 0; i < lines; i++) {
            won |= (stones[0] & masks[i]) == masks[i];
            lost |= (stones[1] & masks[i]) == masks[i];
        }
        if (won || lost || (stones[0] | stones[1]) == ((int64_t)1 << size) - 1) {
            by_first[key] = by_second[key] = won - lost;
        } else {
            double best = -2, worst = 2;
            for (int64_t cell = 0; cell < size; cell++)
                if (cells[cell] == 0) {
                    double first = by_first[key + powers[cell]], second = by_second[key + 2 * powers[cell]];
                    if (first > best) best = first;
                    if (second < worst) worst = second;
                }
            by_first[key] = skip * best + (1 - skip) * worst;
            by_second[key] = skip * worst + (1 - skip) * best;
        }
        for (int64_t cell = 0; cell < size; cell++) {  // count down in base 3
            int64_t bit = (int64_t)1 << cell;
            if (cells[cell] == 2) { cells[cell] = 1; stones[1] ^= bit; stones[0] ^= bit; break; }
            if (cells[cell] == 1) { cells[cell] = 0; stones[0] ^= bit; break; }
            cells[cell] = 2; stones[1] ^= bit;
        }
    }
}
