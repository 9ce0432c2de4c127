// Entry points. A round takes every slot through all phases. Where lanes of several slots share a warp, each phase is a kernel
// of its own on a GPU: assemble, and once more after the start, so that a scenario that has ended makes room in the round it ends
// in. A slot that has a warp, a block or a thread of the CPU to itself goes through its rounds at its own pace.
#if ROWS > 0
#define BORDER(PHASE) PHASE(border, BLOCKS_SOLVE, phase_border(n, w, lane))
#define REFINE(PHASE) PHASE(refine, BLOCKS_ASSEMBLE, phase_refine(n, w, soft, lane))
#else
#define BORDER(PHASE)
#define REFINE(PHASE)
#endif
#define INIT(PHASE) PHASE(init, 4, if (lane == 0) { SCALAR(STATE) = EMPTY; SCALAR(WAITED) = 0.0; })
#define PHASES(PHASE)                                                 \
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

// One round of one slot. What another shift of the system or a second-order correction asks for comes in its next round, in
// which nothing else has work.
#ifdef __CUDACC__
#define OF_A_ROUND FN
#else
#define OF_A_ROUND __attribute__((noinline)) static
#endif
#define DEFINE(name, least, body) \
  OF_A_ROUND void run_##name(const Net& n, const Batch& b, double* w, float* soft, int lane) { body; }
#define THEN(name, least, body) run_##name(n, b, w, soft, lane); lanes_meet();
PHASES(DEFINE)
FN void take_round(const Net& n, const Batch& b, double* w, float* soft, int lane) { PHASES(THEN) }

#ifdef __CUDACC__
// ``least`` blocks per multiprocessor bound the registers of a kernel.
#define LAUNCHED(least) extern "C" __global__ void __launch_bounds__(BLOCK, least)
#define FIND_SLOT \
  int thread = blockIdx.x * blockDim.x + threadIdx.x, tile = thread / TILE_THREADS, within_tile = thread % TILE_THREADS; \
  if (tile >= k.n_tiles) return; \
  int lane = within_tile / WIDTH; \
  double* w = k.memory + (long long)tile * n.n_slot * WIDTH + (within_tile & (WIDTH - 1)); \
  float* soft = k.softness + (long long)tile * n.n_limit * WIDTH + (within_tile & (WIDTH - 1)); \
  (void)lane; (void)soft
#define KERNEL(name, least, body) LAUNCHED(least) name(const Net n, const Batch b, const Work k) { FIND_SLOT; body; }
INIT(KERNEL)
#if LANES < 32 || defined(EACH_PHASE)
PHASES(KERNEL)
#endif
#if LANES >= 32
// Rounds of every slot until it has none to take any more, or has had as many as asked for; a result is written in any case.
LAUNCHED(BLOCKS_ROUNDS) rounds(const Net n, const Batch b, const Work k, int count) {
  FIND_SLOT;
  int state = EMPTY;
  for (int r = 0; r < count || state == DONE; r++) {
    take_round(n, b, w, soft, lane);
    state = (int)SCALAR(STATE);
    if (state == IDLE || state == EMPTY) return;
  }
}
#endif
// Before rounds of a stream: what has been put in by now can be taken.
extern "C" __global__ void latch(const Batch b, int put) { b.counter[AVAILABLE] = put; }
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
// The slots of a stream go on where they stood. They stop, in the middle of a scenario, as soon as there are more threads than
// scenarios and enough have ended: the host may have more to put in.
enum Working { AT_WORK, HAVE_ENDED, THREADS, ENOUGH };
static bool stops(const Batch& b, int state) {
  if (b.queue == nullptr) return state == IDLE;
  const volatile int* working = b.working;
  return state == EMPTY || (state != DONE && working[AT_WORK] < working[THREADS] && working[HAVE_ENDED] >= working[ENOUGH]);
}
static void run_slot(const Net& n, const Batch& b, double* w, float* soft, int lane) {
#define DO(name, least, body) body;
  if (b.queue == nullptr) { INIT(DO) }
  lanes_meet();
  do take_round(n, b, w, soft, lane);
  while (!from_first_lane((int)stops(b, (int)SCALAR(STATE))));
}
#if LANES == 1
static void run_tile(const Net& n, const Batch& b, double* w, float* soft) { run_slot(n, b, w, soft, 0); }
#else
static void run_tile(const Net& n, const Batch& b, double* w, float* soft) {
  Party all, teams[TEAMS], crews[LANES / SPLIT];
  pthread_barrier_init(&all.meeting, nullptr, LANES);
  for (auto& one : teams) pthread_barrier_init(&one.meeting, nullptr, TEAM);
  for (auto& one : crews) pthread_barrier_init(&one.meeting, nullptr, SPLIT);
  std::vector<std::thread> lanes;
  for (int k = 0; k < LANES; k++)
    lanes.emplace_back([&, k] {
      everyone = &all; team = teams + k / TEAM; crew = crews + k / SPLIT; own_lane = k;
      run_slot(n, b, w, soft, k);
    });
  for (auto& lane : lanes) lane.join();
  for (auto& one : teams) pthread_barrier_destroy(&one.meeting);
  for (auto& one : crews) pthread_barrier_destroy(&one.meeting);
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
