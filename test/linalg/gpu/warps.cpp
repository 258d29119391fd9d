// Runs the kernels as a device does: blocks of warps of 32 lanes, which meet in their shuffles.
// KERNELS is the path of kernels.cu; each lane is a coroutine.
#include <cmath>
#include <cstddef>
#include <ucontext.h>
#include <utility>
#include <vector>

using std::fabs;
using std::isfinite;
using std::pow;
using std::sqrt;

namespace {
struct Index { unsigned x; } blockIdx, blockDim, threadIdx, gridDim;
const int LANES = 32;
const size_t STACK = 1 << 16;
ucontext_t scheduler, lanes[LANES];
std::vector<char> stacks(LANES * STACK);
bool ended[LANES];
double offered[LANES], taken[LANES];
int lane, partner[LANES], met;
void (*body)();

double __shfl_xor_sync(unsigned, double value, int with) {
    offered[lane] = value;
    partner[lane] = lane ^ with;
    ++met;
    swapcontext(&lanes[lane], &scheduler);
    return taken[lane];
}

void enter() {
    body();
    ended[lane] = true;
}

// False where some lanes wait for others that have ended: on a device that has no defined outcome.
bool warp(unsigned first) {
    int left = LANES;
    for (int i = 0; i < LANES; ++i) {
        ended[i] = false;
        getcontext(&lanes[i]);
        lanes[i].uc_stack.ss_sp = stacks.data() + i * STACK;
        lanes[i].uc_stack.ss_size = STACK;
        lanes[i].uc_link = &scheduler;
        makecontext(&lanes[i], enter, 0);
    }
    while (left) {
        met = 0;
        // Backwards, as nothing may depend on who comes first.
        for (lane = LANES - 1; lane >= 0; --lane) {
            threadIdx.x = first + lane;
            swapcontext(&scheduler, &lanes[lane]);
            if (ended[lane]) --left;
        }
        if (left && (left != LANES || met != LANES)) return false;
        for (int i = 0; i < LANES; ++i) taken[i] = offered[partner[i]];
    }
    return true;
}

template <class... A, size_t... I>
bool launch(void (*kernel)(A...), unsigned grid, unsigned block, void **values,
            std::index_sequence<I...>) {
    static void (*f)(A...);
    static void **v;
    f = kernel, v = values;
    body = [] { f(*static_cast<A *>(v[I])...); };
    gridDim.x = grid, blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (unsigned first = 0; first < block; first += LANES)
            if (!warp(first)) return false;
    return true;
}

template <class... A>
bool launch(void (*kernel)(A...), unsigned grid, unsigned block, void **values) {
    return launch(kernel, grid, block, values, std::index_sequence_for<A...>());
}
}

#define __global__
#define __device__
#define __forceinline__ inline
#include KERNELS

#define LAUNCHED(name) extern "C" bool launch_##name(unsigned grid, unsigned block, void **v) { \
    return launch(name, grid, block, v); }
LAUNCHED(project)
LAUNCHED(multipliers)
LAUNCHED(hessian)
LAUNCHED(retract)
LAUNCHED(csr_short)
LAUNCHED(csr_long)
LAUNCHED(gather)
LAUNCHED(scatter)
LAUNCHED(dot)
LAUNCHED(cg_advance)
LAUNCHED(cg_move)
LAUNCHED(cg_turn)
LAUNCHED(cg_redirect)
