/* Preloaded into a process whose wall clock is to be wrong: CLOCK_REALTIME is moved, for whoever asks
 * for it, by the seconds that the file named by WALL_CLOCK_SHIFT holds, and every other clock is left
 * true. Writing another number there is a step of the clock.
 *
 * The deadline of a condition variable is an instant of that clock. The Kafka client library makes it
 * from what it is told here, and the kernel measures it by its own clock; so it is moved back, or each
 * wait would be longer or shorter by the shift, which no wrong clock does to a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static time_t shift_s(void) {
    char text[32] = "";
    const char *path = getenv("WALL_CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += shift_s();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    if (also) *also = exact.tv_sec;
    return exact.tv_sec;
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    int (*wait)(cnd_t *, mtx_t *, const struct timespec *);
    *(void **)&wait = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec truly = {until->tv_sec - shift_s(), until->tv_nsec};
    return wait(condition, mutex, &truly);
}
