// What columns of the factorisation gather, where a slot has one lane: each row of a block in a vector.
#if WIDE
typedef double Row __attribute__((vector_size(32)));
typedef double RowInMemory __attribute__((vector_size(32), aligned(8), may_alias));
FN Row row_at(const double* p) { return *(const RowInMemory*)p; }
FN void put_row(double* p, Row x) { *(RowInMemory*)p = x; }
FN const double* block_at(const Net& n, const double* w, int a) { return w + n.o_block + 16 * a; }

// One update of a block: minus U_a' D_k⁻¹ U_b.
FN void add_update(const Net& n, const double* w, int a, int b, int k, Row* sum) {
  const double *left = block_at(n, w, a), *right = block_at(n, w, b), *d = w + n.o_diagonal + 10 * k;
  Row u0 = row_at(right), u1 = row_at(right + 4), u2 = row_at(right + 8), u3 = row_at(right + 12);
  Row y0 = d[0] * u0 + d[1] * u1 + d[3] * u2 + d[6] * u3, y1 = d[1] * u0 + d[2] * u1 + d[4] * u2 + d[7] * u3;
  Row y2 = d[3] * u0 + d[4] * u1 + d[5] * u2 + d[8] * u3, y3 = d[6] * u0 + d[7] * u1 + d[8] * u2 + d[9] * u3;
  for (int r = 0; r < 4; r++) {
    sum[r] -= left[r] * y0;
    sum[r] -= left[4 + r] * y1;
    sum[r] -= left[8 + r] * y2;
    sum[r] -= left[12 + r] * y3;
  }
}
// x minus U_a' y.
FN void take_below(const double* u, const double* y, Row& x) {
  x -= y[0] * row_at(u);
  x -= y[1] * row_at(u + 4);
  x -= y[2] * row_at(u + 8);
  x -= y[3] * row_at(u + 12);
}
FN void gather_diagonal(const Net& n, const double* w, int j, int, int, int, double* sum, double* x) {
  Row sums[4] = {}, right = {};
  for (int q = n.in_ptr[j]; q < n.in_ptr[j + 1]; q++) {
    int a = n.in[2 * q], k = n.in[2 * q + 1];
    add_update(n, w, a, a, k, sums);
    take_below(block_at(n, w, a), w + n.o_x + 4 * k, right);
  }
  for (int r = 0; r < 4; r++) put_row(sum + 4 * r, sums[r]);
  put_row(x, right);
}
FN void gather_block(const Net& n, const double* w, int item, int, int, int, double* sum) {
  Row sums[4] = {};
  for (int q = n.source_ptr[item]; q < n.source_ptr[item + 1]; q++)
    add_update(n, w, n.source[3 * q], n.source[3 * q + 1], n.source[3 * q + 2], sums);
  for (int r = 0; r < 4; r++) put_row(sum + 4 * r, sums[r]);
}
template <int N> FN void gather_below(const Net& n, const double* w, int j, int at, int, int, int, double* x) {
  Row sums[N] = {};
  for (int s = n.in_ptr[j]; s < n.in_ptr[j + 1]; s++)
    for (int v = 0; v < N; v++)
      take_below(block_at(n, w, n.in[2 * s]), w + at + 4 * (v * n.n_bus + n.in[2 * s + 1]), sums[v]);
  for (int v = 0; v < N; v++) put_row(x + 4 * v, sums[v]);
}
template <int N> FN void gather_above(const Net& n, const double* w, int j, int at, int, int, int, double* z) {
  Row sums[N][4] = {};
  for (int a = n.col_ptr[j]; a < n.col_ptr[j + 1]; a++)
    for (int v = 0; v < N; v++) {
      const double* u = block_at(n, w, a);
      Row x = row_at(w + at + 4 * (v * n.n_bus + n.row[a]));
      for (int r = 0; r < 4; r++) sums[v][r] += row_at(u + 4 * r) * x;
    }
  for (int v = 0; v < N; v++)
    for (int r = 0; r < 4; r++) z[4 * v + r] = sums[v][r][0] + sums[v][r][1] + sums[v][r][2] + sums[v][r][3];
}
#endif
