/* A file layer that fails on request: loaded before libc (LD_PRELOAD), so that it sees the calls of Python and of
 * every library. Only files below one folder count. soak_arm() says which call of which kind fails, and how. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE, FSYNC, RENAME, CREATE, KINDS };

static char folder[4096];
static volatile long seen[KINDS];
static int failing = -1, error_number, forever;
static long failing_from;

/* Calls of kind `kind` from number `from` on (counted from 1) fail with `error`: that one, or all after it. */
void soak_arm(const char *prefix, int kind, long from, int error, int all_after) {
  strncpy(folder, prefix, sizeof folder - 1);
  memset((void *)seen, 0, sizeof seen);
  failing = kind, failing_from = from, error_number = error, forever = all_after;
}

long soak_seen(int kind) { return seen[kind]; }

static int below(const char *path) {
  size_t length = strlen(folder);
  return length && path && strncmp(path, folder, length) == 0;
}

static int open_below(int descriptor) {
  char link[64], path[4096];
  if (!folder[0]) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

/* Whether this call fails; errno is set then. */
static int fails(int kind, int ours) {
  if (!ours) return 0;
  long number = __sync_add_and_fetch(&seen[kind], 1);
  if (kind != failing) return 0;
  if (number != failing_from && !(forever && number > failing_from)) return 0;
  errno = error_number;
  return 1;
}

#define WRAP(type, name, parameters, arguments, kind, ours) \
  type name parameters { \
    static type(*real) parameters; \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
    if (fails(kind, ours)) return -1; \
    return real arguments; \
  }

WRAP(ssize_t, write, (int d, const void *b, size_t n), (d, b, n), WRITE, open_below(d))
WRAP(ssize_t, writev, (int d, const struct iovec *v, int n), (d, v, n), WRITE, open_below(d))
WRAP(ssize_t, pwrite, (int d, const void *b, size_t n, off_t o), (d, b, n, o), WRITE, open_below(d))
WRAP(ssize_t, pwrite64, (int d, const void *b, size_t n, off64_t o), (d, b, n, o), WRITE, open_below(d))
WRAP(int, ftruncate, (int d, off_t n), (d, n), WRITE, open_below(d))
WRAP(int, ftruncate64, (int d, off64_t n), (d, n), WRITE, open_below(d))
WRAP(int, fsync, (int d), (d), FSYNC, open_below(d))
WRAP(int, fdatasync, (int d), (d), FSYNC, open_below(d))
WRAP(int, rename, (const char *a, const char *b), (a, b), RENAME, below(b))
WRAP(int, renameat, (int x, const char *a, int y, const char *b), (x, a, y, b), RENAME, below(b))
WRAP(int, mkdir, (const char *p, mode_t m), (p, m), CREATE, below(p))

#define WRAP_OPEN(name, parameters, arguments) \
  int name parameters { \
    static int(*real) parameters; \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list more; \
      va_start(more, flags); \
      mode = va_arg(more, mode_t); \
      va_end(more); \
    } \
    if ((flags & O_CREAT) && fails(CREATE, below(path))) return -1; \
    return real arguments; \
  }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
WRAP_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
WRAP_OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
