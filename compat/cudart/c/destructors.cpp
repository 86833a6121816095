/* Calls of destructors: of objects of a thread, and of those of the program, which run when the variables that a library keeps for its
   thread are gone. */
#include "check.h"

enum { N = 1 << 20 };

static void raise_to(void *at) { *static_cast<int *>(at) = 7; }

/* What a program has to end. Every call is as before. */
struct Resources {
    const char *whose;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    char *memory = nullptr, *pinned = nullptr;
    int called = 0;

    explicit Resources(const char *of) : whose(of) {}

    void make() {
        OK(cudaStreamCreate(&stream));
        OK(cudaEventCreate(&event));
        OK(cudaMalloc(&memory, N));
        OK(cudaMallocHost(&pinned, N));
        OK(cudaMemsetAsync(memory, 3, N, cudaStreamPerThread));
        OK(cudaStreamSynchronize(nullptr));
    }

    ~Resources() {
        cudaStream_t late;
        OK(cudaLaunchHostFunc(cudaStreamPerThread, raise_to, &called));
        OK(cudaStreamSynchronize(cudaStreamPerThread));
        CHECK_INT(called, 7);
        OK(cudaStreamCreate(&late));
        const cudaStream_t all[] = {late, stream, cudaStreamPerThread, cudaStreamLegacy};
        for (cudaStream_t on : all) {
            OK(cudaMemsetAsync(memory, 5, N, on));
            OK(cudaMemcpyAsync(pinned, memory, N, cudaMemcpyDefault, on));
            OK(cudaEventRecord(event, on));
            OK(cudaEventSynchronize(event));
            CHECK(all_are(pinned, 5, N));
            OK(cudaMemset(pinned, 0, N));
            OK(cudaStreamSynchronize(on));
            OK(cudaStreamQuery(on));
        }
        OK(cudaStreamBeginCapture(late, cudaStreamCaptureModeRelaxed));
        OK(cudaMemsetAsync(memory, 9, N, late));
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        OK(cudaStreamEndCapture(late, &graph));
        OK(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaDeviceSynchronize());
        CHECK(all_are(memory, 9, N));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(graph));
        CHECK_INT(cudaFree(&called), cudaErrorInvalidValue);
        OK(cudaFree(memory));
        OK(cudaFreeHost(pinned));
        OK(cudaEventDestroy(event));
        OK(cudaStreamDestroy(stream));
        OK(cudaStreamDestroy(late));
        printf("%s\n", whose);
    }
};

static Resources of_the_program("program");
/* Made before the thread's first call, so it ends after what the library keeps for the thread. */
static thread_local Resources of_the_thread("thread");

static void *thread(void *) {
    Resources &mine = of_the_thread;
    mine.make();
    return nullptr;
}

int main() {
    pthread_t other;
    CHECK(pthread_create(&other, nullptr, thread, nullptr) == 0 && pthread_join(other, nullptr) == 0);
    of_the_program.make();
    thread(nullptr);
    return 0;
}
