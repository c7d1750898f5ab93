// Dual ascent for the multiclass hinge loss on one combined kernel, a block of rows at a
// time: what hot/dual.py does in `violations` and `block_steps`, with the worst rows
// first. Compiled for OUTPUTS classes and blocks of BLOCK rows.
//
// scores are (OUTPUTS, n), coef is (n, OUTPUTS), matrix is (n, n), all float.

#define WARPS (BLOCK / 32)
#define ALL 0xffffffffu
#define HUGE __int_as_float(0x7f800000)

__device__ float violation_of(const float *slopes, const float *coef, int own,
                              float bound) {
  float highest = -HUGE, lowest = HUGE;
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) {
    float slope = slopes[k] - (k == own ? 1.0f : 0.0f);
    highest = fmaxf(highest, slope);
    if (coef[k] < (k == own ? bound : 0.0f)) lowest = fminf(lowest, slope);
  }
  return lowest < HUGE ? fmaxf(highest - lowest, 0.0f) : 0.0f;
}

// The optimum of one row with all others fixed; change is what its coefficients gain.
__device__ void row_step(float *coef, const float *scores, int own, float bound,
                         float curvature, float *change) {
  float excess[OUTPUTS];
  if (curvature <= 0.0f) {  // invisible to the kernel: the linear term alone decides
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k) {
      float value = k == own ? bound : (k == (own == 0 ? 1 : 0) ? -bound : 0.0f);
      change[k] = value - coef[k];
      coef[k] = value;
    }
    return;
  }
  float inverse = __fdividef(1.0f, curvature), level = HUGE;
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) {
    excess[k] = coef[k] - (scores[k] + (k == own ? 0.0f : 1.0f)) * inverse -
                (k == own ? bound : 0.0f);
    level = fminf(level, excess[k]);
  }
  level += bound;
  for (int before = OUTPUTS + 1;;) {
    int count = 0;
    float below = bound;
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k)
      if (excess[k] < level) {
        below += excess[k];
        ++count;
      }
    if (count == 0 || count >= before) break;
    before = count;
    level = __fdividef(below, (float)count);
  }
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) {
    float value = (k == own ? bound : 0.0f) + fminf(0.0f, excess[k] - level);
    change[k] = value - coef[k];
    coef[k] = value;
  }
}

// square[p][q] = matrix[index[p]][index[q]]
extern "C" __global__ void gather_square(const float *matrix, const long long *index,
                                         float *square, int n, int size) {
  int p = blockIdx.x;
  const float *row = matrix + (size_t)index[p] * n;
  for (int q = threadIdx.x; q < size; q += blockDim.x)
    square[(size_t)p * BLOCK + q] = row[index[q]];
}

// One thread block; thread q has row index[q], its coefficients and scores. In turns, the
// worst row of every warp is named, and those with a violation that is worthwhile take
// their steps one after the other: to name them takes longer than a step.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    solve_block(const float *square, const long long *index, const int *target,
                const float *bounds, float *coef, const float *scores, int n, int size,
                double worthwhile, int most, int *moved, float *changes, int *count,
                int *steps) {
  __shared__ unsigned best[2][32];
  __shared__ int who[2][32];
  __shared__ __align__(16) float change[2][(OUTPUTS + 3) / 4 * 4];
  int q = threadIdx.x, lane = q & 31, warp = q >> 5;
  bool here = q < size;
  long long i = here ? index[q] : 0;
  int own = here ? target[i] : 0;
  float bound = here ? bounds[i] : 0.0f, floor = 0.0f;
  float s[OUTPUTS], a[OUTPUTS];
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) {
    s[k] = here ? scores[(size_t)k * n + i] : 0.0f;
    a[k] = here ? coef[i * OUTPUTS + k] : 0.0f;
  }
  bool changed = false;
  int t = 0;
  for (int turn = 0; t < most; turn ^= 1) {
    float mine = here ? violation_of(s, a, own, bound) : 0.0f;
    unsigned bits = __float_as_uint(mine);  // in the order of the numbers: none is < 0
    unsigned top = __reduce_max_sync(ALL, bits);
    unsigned holders = __ballot_sync(ALL, bits == top);
    if (lane == 0) {
      best[turn][warp] = top;
      who[turn][warp] = warp * 32 + __ffs(holders) - 1;
    }
    __syncthreads();
    unsigned theirs = lane < WARPS ? best[turn][lane] : 0u;
    float largest = __uint_as_float(__reduce_max_sync(ALL, theirs));
    if (t == 0) floor = (float)worthwhile * largest;
    if (largest < floor || largest <= 1e-7f) break;
    unsigned named = __ballot_sync(ALL, __uint_as_float(theirs) >= floor);
    int p = who[turn][__ffs(named) - 1];
    float kernel = here ? square[(size_t)p * BLOCK + q] : 0.0f;
    while (named) {
      if (q == p) {
        row_step(a, s, own, bound, kernel, change[t & 1]);
        changed = true;
      }
      named &= named - 1;  // the next one's values come while this one is at work
      float now = kernel;
      if (named) {
        p = who[turn][__ffs(named) - 1];
        kernel = here ? square[(size_t)p * BLOCK + q] : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < OUTPUTS; ++k) s[k] += now * change[t & 1][k];
      ++t;
    }
  }
  // Rows that changed, in the order of the block, whatever the order of the threads.
  unsigned mask = __ballot_sync(ALL, changed);
  __syncthreads();
  if (lane == 0) who[0][warp] = __popc(mask);
  __syncthreads();
  if (changed) {
    int place = __popc(mask & ((1u << lane) - 1u));
    for (int w = 0; w < warp; ++w) place += who[0][w];
    moved[place] = (int)i;
#pragma unroll
    for (int k = 0; k < OUTPUTS; ++k) {
      changes[(size_t)place * OUTPUTS + k] = a[k] - coef[i * OUTPUTS + k];
      coef[i * OUTPUTS + k] = a[k];
    }
  }
  if (q == 0) {
    int total = 0;
    for (int w = 0; w < WARPS; ++w) total += who[0][w];
    *count = total;
    *steps += t;
  }
}

// scores += changes of the rows that moved times their kernel rows; then violations.
#define AT_ONCE 32
extern "C" __global__ void update_scores(const float *matrix, const int *moved,
                                         const float *changes, const int *count,
                                         const int *target, const float *bounds,
                                         const float *coef, float *scores,
                                         float *violations, int n) {
  __shared__ float change[AT_ONCE][OUTPUTS];
  __shared__ int from[AT_ONCE];
  int j = blockIdx.x * blockDim.x + threadIdx.x, total = *count;
  float sum[OUTPUTS];
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) sum[k] = 0.0f;
  for (int base = 0; base < total; base += AT_ONCE) {
    int here = min(AT_ONCE, total - base);
    __syncthreads();
    for (int x = threadIdx.x; x < AT_ONCE * OUTPUTS; x += blockDim.x) {
      int b = x / OUTPUTS;
      change[b][x % OUTPUTS] =
          b < here ? changes[(size_t)base * OUTPUTS + x] : 0.0f;
    }
    if (threadIdx.x < AT_ONCE)
      from[threadIdx.x] = moved[base + min((int)threadIdx.x, here - 1)];
    __syncthreads();
    if (j < n) {
#pragma unroll 8
      for (int b = 0; b < AT_ONCE; ++b) {
        float kernel = matrix[(size_t)from[b] * n + j];
#pragma unroll
        for (int k = 0; k < OUTPUTS; ++k) sum[k] += kernel * change[b][k];
      }
    }
  }
  if (j >= n) return;
  float a[OUTPUTS];
#pragma unroll
  for (int k = 0; k < OUTPUTS; ++k) {
    sum[k] += scores[(size_t)k * n + j];
    scores[(size_t)k * n + j] = sum[k];
    a[k] = coef[(size_t)j * OUTPUTS + k];
  }
  violations[j] = violation_of(sum, a, target[j], bounds[j]);
}
