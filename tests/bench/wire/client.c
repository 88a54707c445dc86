/* One client for every server under test, so that what differs is the server.

   client SCENARIO COUNT EXTRA COMMAND [ARG...]

   Spawns COMMAND, sends `initialize` and `initialized`, runs the scenario and prints one JSON line.
   Scenarios (EXTRA is explained where it is used):
     rtt        COUNT requests `EXTRA` of about 200 bytes, one at a time
     pipeline   COUNT requests `EXTRA`, 64 in flight
     big        COUNT requests `EXTRA` with 1 MB of text, one at a time
     cancel     COUNT times: request `EXTRA` (which sleeps), then $/cancelRequest; time from there to the answer
     recall     COUNT times: recall/start, wait for recall/settled, then time one recall/poll (EXTRA: workspace)
     crowd      COUNT polls, beside 100 requests `test/sleep` in flight and one CPU-bound thread (`test/burn`)
                (EXTRA: workspace)
     spawn      COUNT is ignored: time from spawn to the answer of initialize, resident memory after 1 s
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int to, from;
static pid_t child;
static char *buffer;
static size_t have, used, capacity = 1 << 22;
static long next_id = 1;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what) {
    fprintf(stderr, "client: %s\n", what);
    kill(child, SIGKILL);
    exit(1);
}

static void send_all(const char *data, size_t size) {
    while (size) {
        ssize_t n = write(to, data, size);
        if (n <= 0) die("server closed its input");
        data += n;
        size -= (size_t)n;
    }
}

/* Next frame's body; valid until the next call. */
static char *receive(size_t *length) {
    for (;;) {
        char *end = memmem(buffer + used, have - used, "\r\n\r\n", 4);
        if (end) {
            char *head = buffer + used;
            char *at = memmem(head, (size_t)(end - head), "Content-Length: ", 16);
            if (!at) die("no Content-Length");
            *length = strtoul(at + 16, NULL, 10);
            size_t body = (size_t)(end + 4 - buffer);
            if (have - body >= *length) {
                used = body + *length;
                return buffer + body;
            }
        }
        memmove(buffer, buffer + used, have - used);
        have -= used;
        used = 0;
        if (have == capacity) buffer = realloc(buffer, capacity *= 2);
        ssize_t n = read(from, buffer + have, capacity - have);
        if (n <= 0) die("server closed its output");
        have += (size_t)n;
    }
}

static int contains(const char *body, size_t length, const char *word) {
    return memmem(body, length, word, strlen(word)) != NULL;
}

static char *receive_answer(size_t *length, long id) {
    char wanted[32], spaced[32];
    sprintf(wanted, "\"id\":%ld", id);
    sprintf(spaced, "\"id\": %ld", id);
    for (;;) {
        char *body = receive(length);
        if (contains(body, *length, wanted) || contains(body, *length, spaced)) return body;
    }
}

static void send_body(const char *body) {
    static char *frame;
    static size_t room;
    size_t length = strlen(body);
    if (room < length + 64) frame = realloc(frame, room = length + 64);
    int head = sprintf(frame, "Content-Length: %zu\r\n\r\n", length);
    memcpy(frame + head, body, length);
    send_all(frame, (size_t)head + length);
}

static const char *filler(size_t size) {
    static char *text;
    text = realloc(text, size + 1);
    memset(text, 'x', size);
    text[size] = 0;
    return text;
}

static long request(const char *method, const char *params) {
    size_t size = strlen(params) + 256;
    char *body = malloc(size);
    snprintf(body, size, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"%s\",\"params\":%s}", next_id, method, params);
    send_body(body);
    free(body);
    return next_id++;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* CPU nanoseconds of all threads of the server. */
static double cpu_us(void) {
    char path[64];
    sprintf(path, "/proc/%d/task", child);
    DIR *tasks = opendir(path);
    double total = 0;
    struct dirent *task;
    while (tasks && (task = readdir(tasks))) {
        if (task->d_name[0] == '.') continue;
        char file[352];
        snprintf(file, sizeof file, "%s/%s/schedstat", path, task->d_name);
        FILE *f = fopen(file, "r");
        unsigned long long ns = 0;
        if (f && fscanf(f, "%llu", &ns) == 1) total += (double)ns / 1e3;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return total;
}

static long rss_kb(void) {
    char path[64], line[256];
    sprintf(path, "/proc/%d/status", child);
    FILE *f = fopen(path, "r");
    long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1) break;
    if (f) fclose(f);
    return kb;
}

static void report(const char *scenario, double *samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    printf("{\"scenario\":\"%s\",\"count\":%d,\"p50_us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.2f}\n", scenario, count,
           samples[count / 2], samples[(int)(count * 0.99)], samples[count - 1]);
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    const char *scenario = argv[1], *extra = argv[3];
    int count = atoi(argv[2]);
    buffer = malloc(capacity);
    double *samples = malloc(sizeof(double) * (size_t)(count + 1));
    signal(SIGPIPE, SIG_IGN);
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return 1;
    double spawned = now_us();
    child = fork();
    if (!child) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        if (!getenv("BENCH_STDERR")) dup2(open("/dev/null", O_WRONLY), 2);
        execvp(argv[4], argv + 4);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to = in[1];
    from = out[0];

    size_t length;
    char params[8192];
    sprintf(params,
            "{\"processId\":null,\"rootUri\":null,\"capabilities\":{},\"initializationOptions\":"
            "{\"oncue\":{\"notifications\":[\"recall/settled\"]}}}");
    receive_answer(&length, request("initialize", params));
    double initialised = now_us() - spawned;
    send_body("{\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}");

    sprintf(params, "{\"text\":\"%s\"}", filler(120));
    if (!strcmp(scenario, "spawn")) {
        sleep(1);
        printf("{\"scenario\":\"spawn\",\"ms\":%.1f,\"rss_mb\":%.1f}\n", initialised / 1e3, (double)rss_kb() / 1024);
    } else if (!strcmp(scenario, "rtt") || !strcmp(scenario, "crowd")) {
        if (scenario[0] == 'c') {
            snprintf(params, sizeof params, "{\"sessionId\":\"bench\",\"workspace\":\"%s\"}", extra);
            receive_answer(&length, request("session/open", params));
            extra = "recall/poll";
            strcpy(params, "{\"sessionId\":\"bench\",\"point\":\"toolResult\"}");
            receive_answer(&length, request("test/burn", "{}"));
            for (int i = 0; i < 100; i++) request("test/sleep", "{\"seconds\":600}");
        }
        for (int i = 0; i < count / 10; i++) receive_answer(&length, request(extra, params));
        for (int i = 0; i < count; i++) {
            double start = now_us();
            receive_answer(&length, request(extra, params));
            samples[i] = now_us() - start;
        }
        report(scenario, samples, count);
    } else if (!strcmp(scenario, "pipeline")) {
        for (int i = 0; i < 1000; i++) receive_answer(&length, request(extra, params));
        double cpu = cpu_us(), start = now_us();
        char *batch = malloc(64 * 512);
        for (int sent = 0; sent < count; sent += 64) {
            size_t size = 0;
            for (int i = 0; i < 64; i++) {
                char body[400];
                int n = snprintf(body, sizeof body, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"%s\",\"params\":%s}",
                                 next_id++, extra, params);
                size += (size_t)sprintf(batch + size, "Content-Length: %d\r\n\r\n%s", n, body);
            }
            send_all(batch, size);
            for (int i = 0; i < 64; i++) receive(&length);
        }
        double took = now_us() - start;
        cpu = cpu_us() - cpu;
        int n = (count + 63) / 64 * 64;
        printf("{\"scenario\":\"pipeline\",\"count\":%d,\"per_second\":%.0f,\"cpu_us\":%.2f}\n", n, n / took * 1e6, cpu / n);
    } else if (!strcmp(scenario, "big")) {
        char *big = malloc(1100000);
        sprintf(big, "{\"text\":\"%s\"}", filler(1000000));
        for (int i = -3; i < count; i++) {
            double start = now_us();
            receive_answer(&length, request(extra, big));
            if (i >= 0) samples[i] = now_us() - start;
        }
        report(scenario, samples, count);
    } else if (!strcmp(scenario, "cancel")) {
        for (int i = 0; i < count; i++) {
            long id = request(extra, "{\"seconds\":600}");
            usleep(3000); /* node loses a cancel that arrives in one read with its request */
            char body[128];
            sprintf(body, "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":%ld}}", id);
            double start = now_us();
            send_body(body);
            receive_answer(&length, id);
            samples[i] = now_us() - start;
        }
        report(scenario, samples, count);
    } else if (!strcmp(scenario, "recall")) {
        char open[4096];
        snprintf(open, sizeof open, "{\"sessionId\":\"bench\",\"workspace\":\"%s\"}", extra);
        receive_answer(&length, request("session/open", open));
        double *starts = malloc(sizeof(double) * (size_t)count);
        long bytes = 0;
        for (int i = -20; i < count; i++) {
            send_body("{\"jsonrpc\":\"2.0\",\"method\":\"transcript/didReset\",\"params\":{\"sessionId\":\"bench\","
                      "\"reason\":\"cleared\"}}");
            double start = now_us();
            receive_answer(&length, request("recall/start",
                                            "{\"sessionId\":\"bench\",\"query\":\"how do I deploy the tracker to "
                                            "production\"}"));
            if (i >= 0) starts[i] = now_us() - start;
            for (;;) {
                char *body = receive(&length);
                if (contains(body, length, "recall/settled")) break;
            }
            start = now_us();
            char *body = receive_answer(&length, request("recall/poll", "{\"sessionId\":\"bench\",\"point\":\"userQuery\"}"));
            if (i >= 0) samples[i] = now_us() - start;
            if (!contains(body, length, "\"delivered\"")) die("poll delivered nothing");
            bytes = (long)length;
        }
        fprintf(stderr, "bytes of one answer: %ld\n", bytes);
        report("start", starts, count);
        report("recall", samples, count);
    } else
        return 2;
    fflush(stdout);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
