// Kernels of the solver's inner loop on a GPU, for rotation blocks of D rows and matrices of P
// columns (both defined at compile time). The twins of trust_region_kernels.py
// and sparse_kernels.py in linalg/.
//
// Arrays are C-ordered (rows, P); rows of Y: n blocks of D (rotations), k bearings, fixed rows.
// With SPARSER_HOST a C++ compiler builds the same text: a kernel is then a function that does
// the share of one thread, and a warp has one lane (test/support/emulator.py).

#ifdef SPARSER_HOST
#include <cmath>
using std::sqrt;
using std::pow;
using std::fabs;
using std::isfinite;
static int at_thread, all_threads;
extern "C" void enter(int thread, int threads) { at_thread = thread; all_threads = threads; }
#define KERNEL extern "C" void
#define DEVICE static inline
#define THREAD at_thread
#define THREADS all_threads
#define WARP 1
#else
#define KERNEL extern "C" __global__ void
#define DEVICE __device__ __forceinline__
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)
#define WARP 32
#endif

#define INFINITE (1.0 / 0.0)

// The sum over a group of lanes, in every lane.
template <int lanes> DEVICE double sum_over(double s) {
#ifndef SPARSER_HOST
    for (int step = lanes / 2; step > 0; step /= 2) s += __shfl_xor_sync(0xffffffffu, s, step);
#endif
    return s;
}

// ---- Manifold ---------------------------------------------------------------------------------

// w - sym(w y^T) y of one rotation block, in place.
DEVICE void project_block(const double *y, double w[D][P]) {
    double s[D][D];
    for (int i = 0; i < D; ++i)
        for (int j = 0; j <= i; ++j) {
            double sum = 0;
            for (int c = 0; c < P; ++c) sum += w[i][c] * y[j * P + c] + w[j][c] * y[i * P + c];
            s[i][j] = s[j][i] = 0.5 * sum;
        }
    for (int i = 0; i < D; ++i)
        for (int j = 0; j < D; ++j)
            for (int c = 0; c < P; ++c) w[i][c] -= s[i][j] * y[j * P + c];
}

DEVICE void store_block(const double w[D][P], double *out) {
    for (int i = 0; i < D; ++i)
        for (int c = 0; c < P; ++c) out[i * P + c] = w[i][c];
}

DEVICE void project_row(const double *y, double w[P]) {
    double s = 0;
    for (int c = 0; c < P; ++c) s += w[c] * y[c];
    for (int c = 0; c < P; ++c) w[c] -= s * y[c];
}

KERNEL project(const double *y, const double *v, int n, int k, int rows, double *out) {
    int items = n + rows - n * D;
    for (int t = THREAD; t < items; t += THREADS) {
        if (t < n) {
            double w[D][P];
            long at = (long)t * D * P;
            for (int i = 0; i < D; ++i)
                for (int c = 0; c < P; ++c) w[i][c] = v[at + i * P + c];
            project_block(y + at, w);
            store_block(w, out + at);
        } else {
            double w[P];
            long at = (long)(t - n + n * D) * P;
            bool bearing = t < n + k;
            for (int c = 0; c < P; ++c) w[c] = bearing ? v[at + c] : 0;
            if (bearing) project_row(y + at, w);
            for (int c = 0; c < P; ++c) out[at + c] = w[c];
        }
    }
}

KERNEL multipliers(
    const double *y, const double *g, int n, int k, double *blocks, double *scalars) {
    for (int t = THREAD; t < n + k; t += THREADS) {
        if (t < n) {
            const double *a = g + (long)t * D * P, *b = y + (long)t * D * P;
            for (int i = 0; i < D; ++i)
                for (int j = 0; j <= i; ++j) {
                    double s = 0;
                    for (int c = 0; c < P; ++c)
                        s += a[i * P + c] * b[j * P + c] + a[j * P + c] * b[i * P + c];
                    blocks[((long)t * D + i) * D + j] = 0.5 * s;
                    blocks[((long)t * D + j) * D + i] = 0.5 * s;
                }
        } else {
            long at = (long)(t - n + n * D) * P;
            double s = 0;
            for (int c = 0; c < P; ++c) s += g[at + c] * y[at + c];
            scalars[t - n] = s;
        }
    }
}

// P_y(qv - Lambda v).
KERNEL hessian(
    const double *y, const double *qv, const double *v, int n, int k, int rows,
    const double *blocks, const double *scalars, double *out) {
    int items = n + rows - n * D;
    for (int t = THREAD; t < items; t += THREADS) {
        if (t < n) {
            double w[D][P];
            long at = (long)t * D * P;
            const double *lambda = blocks + (long)t * D * D;
            for (int i = 0; i < D; ++i)
                for (int c = 0; c < P; ++c) {
                    double s = qv[at + i * P + c];
                    for (int j = 0; j < D; ++j) s -= lambda[i * D + j] * v[at + j * P + c];
                    w[i][c] = s;
                }
            project_block(y + at, w);
            store_block(w, out + at);
        } else {
            double w[P];
            long at = (long)(t - n + n * D) * P;
            bool bearing = t < n + k;
            double lambda = bearing ? scalars[t - n] : 0;
            for (int c = 0; c < P; ++c) w[c] = bearing ? qv[at + c] - lambda * v[at + c] : 0;
            if (bearing) project_row(y + at, w);
            for (int c = 0; c < P; ++c) out[at + c] = w[c];
        }
    }
}

// The polar factor of a block of two rows: inverse square root of the Gram matrix in closed form.
DEVICE void polar(double (&a)[2][P]) {
    double g00 = 0, g01 = 0, g11 = 0;
    for (int c = 0; c < P; ++c) {
        g00 += a[0][c] * a[0][c];
        g01 += a[0][c] * a[1][c];
        g11 += a[1][c] * a[1][c];
    }
    double s = sqrt(g00 * g11 - g01 * g01);
    double t = 1 / (s * sqrt(g00 + g11 + 2 * s));
    for (int c = 0; c < P; ++c) {
        double u = a[0][c], w = a[1][c];
        a[0][c] = t * ((g11 + s) * u - g01 * w);
        a[1][c] = t * ((g00 + s) * w - g01 * u);
    }
}

// Of three rows, by scaled Newton steps as in linalg/trust_region_kernels.py.
DEVICE void polar(double (&a)[3][P]) {
    for (int step = 0; step < 30; ++step) {
        double h00 = 0, h01 = 0, h02 = 0, h11 = 0, h12 = 0, h22 = 0;
        for (int c = 0; c < P; ++c) {
            h00 += a[0][c] * a[0][c];
            h01 += a[0][c] * a[1][c];
            h02 += a[0][c] * a[2][c];
            h11 += a[1][c] * a[1][c];
            h12 += a[1][c] * a[2][c];
            h22 += a[2][c] * a[2][c];
        }
        double off = fabs(h00 - 1) + fabs(h11 - 1) + fabs(h22 - 1)
            + fabs(h01) + fabs(h02) + fabs(h12);
        if (off < 2e-15) break;
        double c00 = h11 * h22 - h12 * h12, c01 = h02 * h12 - h01 * h22;
        double c02 = h01 * h12 - h02 * h11;
        double det = h00 * c00 + h01 * c01 + h02 * c02;
        double c11 = h00 * h22 - h02 * h02, c12 = h01 * h02 - h00 * h12;
        double c22 = h00 * h11 - h01 * h01;
        double scale = pow(det, -1.0 / 6.0);
        double ka = 0.5 * scale, kb = 0.5 / (scale * det);
        for (int c = 0; c < P; ++c) {
            double a0 = a[0][c], a1 = a[1][c], a2 = a[2][c];
            a[0][c] = ka * a0 + kb * (c00 * a0 + c01 * a1 + c02 * a2);
            a[1][c] = ka * a1 + kb * (c01 * a0 + c11 * a1 + c12 * a2);
            a[2][c] = ka * a2 + kb * (c02 * a0 + c12 * a1 + c22 * a2);
        }
        if (off < 1e-8) break;
    }
}

KERNEL retract(const double *y, const double *v, int n, int k, int rows, double *out) {
    int items = n + rows - n * D;
    for (int t = THREAD; t < items; t += THREADS) {
        if (t < n) {
            double a[D][P];
            long at = (long)t * D * P;
            for (int i = 0; i < D; ++i)
                for (int c = 0; c < P; ++c) a[i][c] = y[at + i * P + c] + v[at + i * P + c];
            polar(a);
            store_block(a, out + at);
        } else {
            long at = (long)(t - n + n * D) * P;
            bool bearing = t < n + k;
            double s = 0;
            for (int c = 0; c < P; ++c) {
                double e = y[at + c] + v[at + c];
                s += e * e;
            }
            s = bearing ? 1 / sqrt(s) : 1;
            for (int c = 0; c < P; ++c)
                out[at + c] = bearing ? s * (y[at + c] + v[at + c]) : y[at + c];
        }
    }
}

// ---- Sparse matrices --------------------------------------------------------------------------

// out[r] = (base[r] if keep) + sign (A x)[r] for rows first .. last; base may be out.
// `lanes` threads share a row: a warp for long rows, a quarter of one for short ones.
template <int lanes> DEVICE void rows_of_csr(
    int first, int last, const int *indptr, const int *indices, const double *data,
    const double *x, const double *base, int keep, double sign, double *out) {
    int lane = THREAD % lanes;
    // All lanes of a warp stay in the loop together, whatever row they have: shuffles need them.
    for (int start = first; start < last; start += THREADS / lanes) {
        int r = start + THREAD / lanes;
        double sum[P];
        for (int c = 0; c < P; ++c) sum[c] = 0;
        if (r < last)
            for (int e = indptr[r] + lane; e < indptr[r + 1]; e += lanes) {
                double a = data[e];
                const double *from = x + (long)indices[e] * P;
                for (int c = 0; c < P; ++c) sum[c] += a * from[c];
            }
        for (int c = 0; c < P; ++c) sum[c] = sum_over<lanes>(sum[c]);
        if (r < last)
            // Every lane has all sums; a loop from `lane` would put them into memory.
            for (int c = 0; c < P; ++c)
                if (lane == c % lanes)
                    out[(long)r * P + c] = (keep ? base[(long)r * P + c] : 0) + sign * sum[c];
    }
}

KERNEL csr_short(
    int first, int last, const int *indptr, const int *indices, const double *data,
    const double *x, const double *base, int keep, double sign, double *out) {
    rows_of_csr<(WARP + 3) / 4>(first, last, indptr, indices, data, x, base, keep, sign, out);
}

KERNEL csr_long(
    int first, int last, const int *indptr, const int *indices, const double *data,
    const double *x, const double *base, int keep, double sign, double *out) {
    rows_of_csr<WARP>(first, last, indptr, indices, data, x, base, keep, sign, out);
}

// out[i] = x[order[i]]
KERNEL gather(int n, const double *x, const int *order, double *out) {
    for (int t = THREAD; t < n; t += THREADS)
        for (int c = 0; c < P; ++c) out[(long)t * P + c] = x[(long)order[t] * P + c];
}

// out[order[i]] = x[i]
KERNEL scatter(int n, const double *x, const int *order, double *out) {
    for (int t = THREAD; t < n; t += THREADS)
        for (int c = 0; c < P; ++c) out[(long)order[t] * P + c] = x[(long)t * P + c];
}

// ---- Truncated CG -----------------------------------------------------------------------------

// One partial sum of a . b per warp; their number and order are fixed, so results repeat.
KERNEL dot(int size, const double *a, const double *b, double *partial) {
    double s = 0;
    for (int t = THREAD; t < size; t += THREADS) s += a[t] * b[t];
    s = sum_over<WARP>(s);
    if (THREAD % WARP == 0) partial[THREAD / WARP] = s;
}

DEVICE double total(int count, const double *partial) {
    double s = 0;
    for (int t = THREAD; t < count; t += WARP) s += partial[t];
    return sum_over<WARP>(s);
}

// Places in the state of a run of CG, as in linalg/trust_region_kernels.py.
enum {
    DONE, STEPS, MAX_STEPS, RZ, TARGET, SS, SD, DD, RADIUS, MODEL, CURVATURE, ALPHA, STEP, BETA,
    TAU
};
enum { RUNNING, CONVERGED, BOUNDARY, EXHAUSTED };

// From <direction, H direction>: how far to go. One warp.
KERNEL cg_advance(int count, const double *partial, double *state) {
    double curvature = total(count, partial);
    if (THREAD != 0) return;
    state[ALPHA] = state[STEP] = 0;
    if (state[DONE] != RUNNING) return;
    state[STEPS] += 1;
    state[CURVATURE] = curvature;
    double rz = state[RZ], ss = state[SS], sd = state[SD], dd = state[DD];
    double radius = state[RADIUS];
    double alpha = curvature > 0 ? rz / curvature : INFINITE;
    double ahead = curvature > 0 ? ss + 2 * alpha * sd + alpha * alpha * dd : INFINITE;
    if (!(curvature > 0) || ahead >= radius * radius) {
        double limit = isfinite(radius) ? radius : sqrt(ss > dd ? ss : dd);
        double room = sd * sd + dd * (limit * limit - ss);
        state[STEP] = state[TAU] = (-sd + sqrt(room > 0 ? room : 0)) / dd;
        state[SS] = limit * limit;
        state[DONE] = BOUNDARY;
        return;
    }
    state[ALPHA] = state[STEP] = alpha;
    state[MODEL] -= 0.5 * alpha * rz;
    state[SS] = ahead;
}

// s += step direction, r += alpha H direction.
KERNEL cg_move(
    int size, const double *state, const double *direction, const double *hp, double *s,
    double *r) {
    double step = state[STEP], alpha = state[ALPHA];
    if (step == 0) return;
    for (int t = THREAD; t < size; t += THREADS) {
        s[t] += step * direction[t];
        r[t] += alpha * hp[t];
    }
}

// From <r, z>: whether to go on, and how to turn. One warp.
KERNEL cg_turn(int count, const double *partial, double *state) {
    double rz = total(count, partial);
    if (THREAD != 0 || state[DONE] != RUNNING) return;
    double beta = rz / state[RZ];
    state[BETA] = beta;
    state[RZ] = rz;
    state[SD] = beta * (state[SD] + state[ALPHA] * state[DD]);
    state[DD] = rz + beta * beta * state[DD];
    if (!(rz > state[TARGET])) state[DONE] = CONVERGED;
    else if (state[STEPS] >= state[MAX_STEPS]) state[DONE] = EXHAUSTED;
}

// direction = beta direction - z, unless CG has ended.
KERNEL cg_redirect(int size, const double *state, const double *z, double *direction) {
    if (state[DONE] != RUNNING) return;
    double beta = state[BETA];
    for (int t = THREAD; t < size; t += THREADS) direction[t] = beta * direction[t] - z[t];
}
