/* LD_PRELOAD shim: disk faults for one process, below its data folder only.

   $DLEDGER_SHIM_CONTROL   a file of 64 bytes, mapped shared: what to do, and how often it was done
   $DLEDGER_SHIM_FOLDER    paths that begin so are hit

   control, int32 each: 0 write mode  1 sync mode  2 read mode  3 sync delay ms
                        4 writes hit  5 syncs hit  6 reads hit
   modes: 0 none  1 EIO  2 ENOSPC (writes)  3 short (writes)  4 delayed  5 hangs  6 lies
   A sync or write that hangs goes on when its mode changes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE, SYNC, READ, DELAY_MS, WRITES, SYNCS, READS };
enum { NONE, FAIL, FULL, SHORT, SLOW, HANG, LIE };

static volatile int *control;
static const char *folder;
static size_t folder_size;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DLEDGER_SHIM_CONTROL");
    folder = getenv("DLEDGER_SHIM_FOLDER");
    if (!path || !folder) return;
    folder_size = strlen(folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *found = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED) control = found;
    close(fd);
}

static int is_ours(int fd) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    return size >= (ssize_t)folder_size && !memcmp(path, folder, folder_size);
}

static void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&time, NULL);
}

/* 0: do the real thing; 1: errno is set, fail; 2: write half */
static int write_fault(int fd) {
    if (!control || control[WRITE] == NONE || !is_ours(fd)) return 0;
    __sync_fetch_and_add(&control[WRITES], 1);
    if (control[WRITE] == HANG) {
        while (control[WRITE] == HANG) sleep_ms(5);
        return 0;
    }
    if (control[WRITE] == SHORT) return 2;
    errno = control[WRITE] == FULL ? ENOSPC : EIO;
    return 1;
}

static ssize_t write_some(int fd, const void *data, size_t size, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    int fault = write_fault(fd);
    if (fault == 1) return -1;
    return real(fd, data, fault == 2 && size > 1 ? size / 2 : size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    return write_some(fd, data, size, at);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    return write_some(fd, data, size, at);
}

static ssize_t write_parts(int fd, const struct iovec *parts, int count, off64_t at) {
    static ssize_t (*real)(int, const struct iovec *, int, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwritev64");
    int fault = write_fault(fd);
    if (fault == 1) return -1;
    return real(fd, parts, fault == 2 && count > 1 ? count / 2 : count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    return write_parts(fd, parts, count, at);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return write_parts(fd, parts, count, at);
}

static int allocate(int fd, off64_t at, off64_t size) {
    static int (*real)(int, off64_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "posix_fallocate64");
    return write_fault(fd) == 1 ? errno : real(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) { return allocate(fd, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) { return allocate(fd, at, size); }

static int sync_with(const char *name, int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (control && control[SYNC] != NONE && is_ours(fd)) {
        __sync_fetch_and_add(&control[SYNCS], 1);
        if (control[SYNC] == FAIL) return errno = EIO, -1;
        if (control[SYNC] == LIE) return 0;
        if (control[SYNC] == SLOW) sleep_ms(control[DELAY_MS]);
        while (control[SYNC] == HANG) sleep_ms(5);
    }
    return real(fd);
}
int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

static ssize_t read_some(int fd, void *data, size_t size, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    if (control && control[READ] != NONE && is_ours(fd)) {
        __sync_fetch_and_add(&control[READS], 1);
        return errno = EIO, -1;
    }
    return real(fd, data, size, at);
}
ssize_t pread64(int fd, void *data, size_t size, off64_t at) {
    return read_some(fd, data, size, at);
}
ssize_t pread(int fd, void *data, size_t size, off_t at) { return read_some(fd, data, size, at); }
