/* The floor: the least that any server on these frames can do. Reads a frame, finds its id, answers
   {"jsonrpc":"2.0","id":ID,"result":null}; exits at end of input. No JSON is parsed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *in, out[1 << 16];
static size_t have, capacity = 1 << 16, pending;

static void flush_out(void) {
    size_t done = 0;
    while (done < pending) {
        ssize_t n = write(1, out + done, pending - done);
        if (n <= 0) exit(1);
        done += (size_t)n;
    }
    pending = 0;
}

int main(void) {
    in = malloc(capacity);
    for (;;) {
        size_t at = 0;
        for (;;) {
            char *head = in + at;
            char *end = memmem(head, have - at, "\r\n\r\n", 4);
            if (!end) break;
            char *length_at = memmem(head, (size_t)(end - head), "Content-Length: ", 16);
            if (!length_at) exit(2);
            size_t length = strtoul(length_at + 16, NULL, 10);
            size_t body_at = (size_t)(end + 4 - in);
            if (have - body_at < length) {
                while (capacity < body_at + length) in = realloc(in, capacity *= 2);
                break;
            }
            char *body = in + body_at;
            char *id = memmem(body, length < 64 ? length : 64, "\"id\":", 5);
            if (id) {
                id += 5;
                size_t n = strspn(id, "0123456789");
                char answer[128];
                int size = snprintf(answer, sizeof answer, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":null}",
                                    (int)n, id);
                if (pending + 256 > sizeof out) flush_out();
                pending += (size_t)sprintf(out + pending, "Content-Length: %d\r\n\r\n%s", size, answer);
            }
            at = body_at + length;
        }
        memmove(in, in + at, have - at);
        have -= at;
        flush_out();
        if (have == capacity) in = realloc(in, capacity *= 2);
        ssize_t n = read(0, in + have, capacity - have);
        if (n <= 0) return 0;
        have += (size_t)n;
    }
}
