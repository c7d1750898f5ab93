// out[i][j] += sum over kernels f of
//   scale_f(i) scale_f(j) g_f(slope_f dot[i][j] + added_f(i) + added_f(j))
// where g is a power, or for degree 0 the exponential of a number that is at most zero.
// In one pass over a tile, for all the kernels that share its inner products.
extern "C" __global__ void add_curves(float *out, const float *dot, int n_rows,
                                      int n_columns, int n_kernels, const float *slopes,
                                      const int *degrees, const float *left,
                                      const float *left_scale, const float *right,
                                      const float *right_scale) {
  size_t total = (size_t)n_rows * n_columns;
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t x = (size_t)blockIdx.x * blockDim.x + threadIdx.x; x < total; x += stride) {
    int i = (int)(x / n_columns), j = (int)(x % n_columns);
    float product = dot[x], sum = out[x];
    for (int f = 0; f < n_kernels; ++f) {
      size_t row = (size_t)f * n_rows + i, column = (size_t)f * n_columns + j;
      float value = slopes[f] * product + left[row] + right[column];
      int degree = degrees[f];
      if (degree == 0) {
        value = expf(fminf(value, 0.0f));
      } else {
        float base = value;
        value = 1.0f;
        for (int d = degree; d > 0; d >>= 1) {
          if (d & 1) value *= base;
          base *= base;
        }
      }
      sum += left_scale[row] * right_scale[column] * value;
    }
    out[x] = sum;
  }
}
