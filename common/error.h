/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one error object of our programs. Library code returns 0 or -errno and
 * fills it where the caller passed one; it is wrapped with context on the way
 * up and printed once, in main, with what the user can do next.
 */
#pragma once

struct apir_error {
    int code;      /* an errno value, positive; 0: no error */
    char msg[512]; /* NUL-terminated, without newline */
};

/*
 * Sets *err (NULL is allowed) to `code` (a positive errno value) and the
 * formatted text. Returns -code, so that a caller can `return` the call.
 */
int apir_error_set(struct apir_error *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As apir_error_set, with ": " and strerror(code) appended. Returns -code. */
int apir_error_sys(struct apir_error *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Puts the formatted text and ": " before the message that is there, where rc is below 0. Keeps
 * the code. Returns rc.
 */
int apir_error_wrap(struct apir_error *err, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
