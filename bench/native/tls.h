// TLS beneath the client, where it is compiled in (-DWITH_TLS -lssl -lcrypto). Certificates are not checked: the peer is ours.
#ifndef TLS_H
#define TLS_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef WITH_TLS
#include <openssl/ssl.h>

typedef SSL tls_conn;
static SSL_CTX *tls_context;

static int tls_start(void) {
  tls_context = SSL_CTX_new(TLS_client_method());
  if (!tls_context) return 0;
  SSL_CTX_set_verify(tls_context, SSL_VERIFY_NONE, NULL);
  SSL_CTX_set_read_ahead(tls_context, 1);
  return 1;
}

static SSL *tls_open(int fd) {
  SSL *tls = SSL_new(tls_context);
  SSL_set_fd(tls, fd);
  SSL_set_connect_state(tls);
  return tls;
}

// 1: done, 0: wait until the socket is readable, -1: failed. What is written is small, so writing never waits.
static int tls_handshake(SSL *tls) {
  int result = SSL_do_handshake(tls);
  if (result == 1) return 1;
  return SSL_get_error(tls, result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

// As send.
static ssize_t tls_send(SSL *tls, const void *data, int size) { return SSL_write(tls, data, size); }

// As read, with everything that has arrived: what came together counts as having come in one read, as it does without TLS.
static ssize_t tls_read(SSL *tls, char *buffer, size_t cap) {
  size_t have = 0;
  while (have < cap) {
    int n = SSL_read(tls, buffer + have, (int)(cap - have));
    if (n > 0) {
      have += n;
      continue;
    }
    if (SSL_get_error(tls, n) == SSL_ERROR_WANT_READ) {
      errno = EAGAIN;
      return have ? (ssize_t)have : -1;
    }
    return (ssize_t)have;
  }
  return (ssize_t)have;
}

static void tls_close(SSL *tls) { SSL_free(tls); }
#else
typedef void tls_conn;
static int tls_start(void) { return 0; }
static tls_conn *tls_open(int fd) { return (void)fd, NULL; }
static int tls_handshake(tls_conn *tls) { return (void)tls, -1; }
static ssize_t tls_send(tls_conn *tls, const void *data, int size) { return (void)tls, (void)data, (void)size, -1; }
static ssize_t tls_read(tls_conn *tls, char *buffer, size_t cap) { return (void)tls, (void)buffer, (void)cap, -1; }
static void tls_close(tls_conn *tls) { (void)tls; }
#endif
#endif
