/* LDP-OBI with the printed Laplace randomiser in plain C: the yardstick of experiments/local.py. */
#include <math.h>
#include <stdint.h>

#define S 2
#define A 2
#define H 2
#define ROWS (S * A)
#define CELLS (ROWS * (S + 2))

static uint64_t mix(uint64_t w) {
    w = (w ^ (w >> 30)) * 0xBF58476D1CE4E5B9ULL;
    w = (w ^ (w >> 27)) * 0x94D049BB133111EBULL;
    return w ^ (w >> 31);
}

static double uniform(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15ULL;
    return ((double)(mix(*state) >> 12) + 0.5) * 0x1p-52;
}

static void evaluate(const double *P, const double *r, int actions[H][S], double V[H + 1][S]) {
    for (int s = 0; s < S; s++) V[H][s] = 0.0;
    for (int h = H - 1; h >= 0; h--)
        for (int s = 0; s < S; s++) {
            int row = s * A + actions[h][s];
            double q = r[row];
            for (int t = 0; t < S; t++) q += P[row * S + t] * V[h + 1][t];
            V[h][s] = q;
        }
}

static void plan(const double *cells, double k, double scale, double alpha, double failure, int actions[H][S],
                 uint64_t *coins) {
    const double *visits = cells, *moves = cells + ROWS, *rewards = cells + ROWS * (S + 1);
    double lk = log(k), base = log(2.0 * M_PI * M_PI / (3.0 * failure)) + 2.0 * lk;
    double one = log(6.0 * ROWS) + base, many = log(6.0 * S * ROWS) + base;
    double c = fmax(1.0, fmax(sqrt(k), one) * sqrt(8.0 * one) * scale);
    double c4 = fmax(1.0, fmax(sqrt(k), many) * sqrt(8.0 * many) * scale);
    double c3 = fmax(1.0, fmax(sqrt(k * S), many) * sqrt(8.0 * many) * scale);
    double level = log(4.0 * M_PI * M_PI * ROWS * H / (3.0 * failure)) + 3.0 * lk;
    double ur = sqrt(2.0 * level), up = sqrt(14.0 * S * level);
    double reward[ROWS], inverse[ROWS], bonus[ROWS], V[H + 1][S];
    for (int row = 0; row < ROWS; row++) {
        double followed = 0.0;
        for (int t = 0; t < S; t++) followed += moves[row * S + t];
        double d2 = 1.0 / fmax(visits[row] + alpha * c, (alpha - 1.0) * c);
        double d3 = 1.0 / fmax(followed + alpha * c3, (alpha - 1.0) * c3);
        reward[row] = rewards[row] * d2 + ur * sqrt(d2) + ((alpha + 1.0) * c + c) * d2;
        inverse[row] = d3;
        bonus[row] = up * sqrt(d3) + (S * c4 + (alpha + 1.0) * c3) * d3;
    }
    for (int s = 0; s < S; s++) V[H][s] = 0.0;
    for (int h = H - 1; h >= 0; h--)
        for (int s = 0; s < S; s++) {
            double best = -INFINITY;
            int choice = 0, ties = 0;
            for (int a = 0; a < A; a++) {
                int row = s * A + a;
                double q = 0.0;
                for (int t = 0; t < S; t++) q += moves[row * S + t] * V[h + 1][t];
                q = q * inverse[row] + reward[row] + (H - h) * bonus[row];
                if (q > best) { best = q; choice = a; ties = 1; }
                else if (q == best && (int)(uniform(coins) * ++ties) == 0) choice = a;
            }
            actions[h][s] = choice;
            V[h][s] = fmin(H - h, fmax(0.0, best));
        }
}

double run(const double *P, const double *r, const double *start, double optimal, double scale, double alpha,
           double failure, int64_t episodes, uint64_t seed) {
    uint64_t users = mix(seed + 1), noise = mix(seed + 2), coins = mix(seed + 3);
    double cells[CELLS] = {0}, V[H + 1][S], total = 0.0, gap = 0.0;
    int actions[H][S], deployed[H][S];
    for (int h = 0; h < H; h++) for (int s = 0; s < S; s++) deployed[h][s] = -1;
    for (int64_t k = 0; k < episodes; k++) {
        plan(cells, k + 1.0, scale, alpha, failure, actions, &coins);
        int changed = 0;
        for (int h = 0; h < H; h++)
            for (int s = 0; s < S; s++)
                if (actions[h][s] != deployed[h][s]) { deployed[h][s] = actions[h][s]; changed = 1; }
        if (changed) {
            evaluate(P, r, deployed, V);
            gap = optimal;
            for (int s = 0; s < S; s++) gap -= start[s] * V[0][s];
        }
        total += gap;
        int s = 0;
        double u = uniform(&users), sum = start[0];
        while (s < S - 1 && u >= sum) sum += start[++s];
        for (int h = 0; h < H; h++) {
            int row = s * A + actions[h][s], t = 0;
            cells[row] += 1.0;
            cells[ROWS * (S + 1) + row] += r[row];
            u = uniform(&users);
            sum = P[row * S];
            while (t < S - 1 && u >= sum) sum += P[row * S + ++t];
            if (h + 1 < H) cells[ROWS + row * S + t] += 1.0;
            s = t;
        }
        for (int i = 0; i < CELLS; i++) {
            double x = uniform(&noise) - 0.5;
            cells[i] += copysign(scale * log(1.0 - 2.0 * fabs(x)), -x);
        }
    }
    return total;
}
