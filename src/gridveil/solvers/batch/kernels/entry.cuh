// Entry points. A round takes every slot through all phases; on a GPU each phase is a kernel, on a CPU a thread runs its one
// slot through round after round.
// A scenario that has ended makes room in the round it ends in: after the start, assemble sees only the new ones.
#if ROWS > 0
#define BORDER(PHASE) PHASE(border, BLOCKS_SOLVE, phase_border(n, w, lane))
#define REFINE(PHASE) PHASE(refine, BLOCKS_ASSEMBLE, phase_refine(n, w, soft, lane))
#define BORDER_PHASE border,
#define REFINE_PHASE refine,
#else
#define BORDER(PHASE)
#define REFINE(PHASE)
#define BORDER_PHASE
#define REFINE_PHASE
#endif
#define PHASES(PHASE)                                                 \
  PHASE(init, 4, if (lane == 0) { SCALAR(STATE) = EMPTY; SCALAR(WAITED) = 0.0; })                \
  PHASE(start, BLOCKS_OTHER, phase_start(n, b, w, soft, lane))        \
  PHASE(assemble, BLOCKS_ASSEMBLE, phase_assemble(n, w, soft, lane))  \
  PHASE(factor, BLOCKS_FACTOR, phase_factor(n, w, lane))              \
  BORDER(PHASE)                                                       \
  PHASE(predict, BLOCKS_SOLVE, phase_predict(n, w, lane))             \
  PHASE(aim, BLOCKS_RECOVER, phase_aim(n, w, soft, lane))             \
  PHASE(surplus, BLOCKS_RECOVER, phase_surplus(n, w, soft, lane))     \
  PHASE(correct, BLOCKS_SOLVE, phase_correct(n, w, lane))             \
  REFINE(PHASE)                                                       \
  PHASE(recover, BLOCKS_RECOVER, phase_recover(n, w, soft, lane))     \
  PHASE(search, BLOCKS_OTHER, phase_search(n, w, lane))               \
  PHASE(step, BLOCKS_OTHER, phase_step(n, w, lane))

#ifdef __CUDACC__
// ``least`` blocks per multiprocessor bound the registers of a kernel.
#define KERNEL(name, least, body) \
  extern "C" __global__ void __launch_bounds__(BLOCK, least) name(const Net n, const Batch b, const Work k) { \
    int thread = blockIdx.x * blockDim.x + threadIdx.x, tile = thread / TILE_THREADS, within_tile = thread % TILE_THREADS; \
    if (tile >= k.n_tiles) return; \
    int lane = within_tile / WIDTH; \
    double* w = k.memory + (long long)tile * n.n_slot * WIDTH + (within_tile & (WIDTH - 1)); \
    float* soft = k.softness + (long long)tile * n.n_limit * WIDTH + (within_tile & (WIDTH - 1)); \
    (void)lane; (void)soft; \
    body; \
  }
PHASES(KERNEL)
// Before each round of a stream: what has been put in by now can be taken.
extern "C" __global__ void latch(const Batch b) { b.counter[AVAILABLE] = *(volatile int*)(b.counter + PUT); }
// Towards the end of a batch: slots that still work move to tiles in front, one block per slot.
extern "C" __global__ void move_slots(const Net n, const Work k, const int* from, const int* to) {
  int a = from[blockIdx.x], b = to[blockIdx.x];
  const double* w = k.memory + (long long)(a / WIDTH) * n.n_slot * WIDTH + a % WIDTH;
  double* v = k.memory + (long long)(b / WIDTH) * n.n_slot * WIDTH + b % WIDTH;
  for (int e = threadIdx.x; e < n.n_slot; e += blockDim.x) v[e * WIDTH] = w[e * WIDTH];
  const float* s = k.softness + (long long)(a / WIDTH) * n.n_limit * WIDTH + a % WIDTH;
  float* t = k.softness + (long long)(b / WIDTH) * n.n_limit * WIDTH + b % WIDTH;
  for (int e = threadIdx.x; e < n.n_limit; e += blockDim.x) t[e * WIDTH] = s[e * WIDTH];
}
// Later still: a copy of the slots at work in tiles of another width, one block per slot; -1 leaves a slot without work.
extern "C" __global__ void take_slots(const Net n, const Work k, const double* memory, const float* softness, int width,
                                      const int* from, int without_work) {
  int a = from[blockIdx.x], b = blockIdx.x;
  double* v = k.memory + (long long)(b / WIDTH) * n.n_slot * WIDTH + b % WIDTH;
  if (a < 0) {
    if (threadIdx.x == 0) { v[(n.o_scalar + STATE) * WIDTH] = without_work; v[(n.o_scalar + WAITED) * WIDTH] = 0.0; }
    return;
  }
  const double* w = memory + (long long)(a / width) * n.n_slot * width + a % width;
  for (int e = threadIdx.x; e < n.n_slot; e += blockDim.x) v[e * WIDTH] = w[e * width];
  const float* s = softness + (long long)(a / width) * n.n_limit * width + a % width;
  float* t = k.softness + (long long)(b / WIDTH) * n.n_limit * WIDTH + b % WIDTH;
  for (int e = threadIdx.x; e < n.n_limit; e += blockDim.x) t[e * WIDTH] = s[e * width];
}
#else
#define CALL(name, least, body) static void name(const Net& n, const Batch& b, double* w, float* soft, int lane) { body; }
PHASES(CALL)
#define SYSTEM assemble, factor, BORDER_PHASE
#define CORRECTION surplus, correct, REFINE_PHASE recover, search,
#if LANES == 1
#define IN_A_ROUND assemble, start, SYSTEM predict, aim, CORRECTION step
#else  // as a GPU does with few slots (engine_gpu.PATIENT_ROUND)
#define IN_A_ROUND assemble, start, SYSTEM SYSTEM SYSTEM predict, aim, CORRECTION CORRECTION step
#endif
// The slots of a stream go on where they stood. They stop, in the middle of a scenario, as soon as there are more threads than
// scenarios and enough have ended: the host may have more to put in.
enum Working { AT_WORK, HAVE_ENDED, THREADS, ENOUGH };
static bool stops(const Batch& b, int state) {
  if (b.queue == nullptr) return state == IDLE;
  const volatile int* working = b.working;
  return state == EMPTY || (working[AT_WORK] < working[THREADS] && working[HAVE_ENDED] >= working[ENOUGH]);
}
static void run_slot(const Net& n, const Batch& b, double* w, float* soft, int lane) {
  if (b.queue == nullptr) init(n, b, w, soft, lane);
  for (;;) {
    for (auto phase : {IN_A_ROUND}) {
      lanes_meet();
      phase(n, b, w, soft, lane);
    }
    lanes_meet();
    if (from_first_lane((int)stops(b, (int)SCALAR(STATE)))) return;
  }
}
#if LANES == 1
static void run_tile(const Net& n, const Batch& b, double* w, float* soft) { run_slot(n, b, w, soft, 0); }
#else
static void run_tile(const Net& n, const Batch& b, double* w, float* soft) {
  Party all, teams[TEAMS];
  pthread_barrier_init(&all.meeting, nullptr, LANES);
  for (auto& one : teams) pthread_barrier_init(&one.meeting, nullptr, TEAM);
  std::vector<std::thread> lanes;
  for (int k = 0; k < LANES; k++)
    lanes.emplace_back([&, k] { everyone = &all; team = teams + k / TEAM; own_lane = k; run_slot(n, b, w, soft, k); });
  for (auto& lane : lanes) lane.join();
  for (auto& one : teams) pthread_barrier_destroy(&one.meeting);
  pthread_barrier_destroy(&all.meeting);
}
#endif
extern "C" void gridveil_run(const Net* n, const Batch* b, const Work* k) {
  std::vector<std::thread> threads;
  for (int t = 0; t < k->n_tiles; t++)
    threads.emplace_back([=] {
      if (b->working != nullptr) __atomic_fetch_add(b->working, 1, __ATOMIC_RELAXED);
      run_tile(*n, *b, k->memory + (long long)t * n->n_slot, k->softness + (long long)t * n->n_limit);
      if (b->working != nullptr) __atomic_fetch_sub(b->working, 1, __ATOMIC_RELAXED);
    });
  for (auto& thread : threads) thread.join();
}
extern "C" void gridveil_sizes(long long* sizes) {
  sizes[0] = sizeof(Net); sizes[1] = sizeof(Batch); sizes[2] = sizeof(Work); sizes[3] = N_SCALARS;
  sizes[4] = ROWS * ROW_SIZE + 1;
}
#endif
