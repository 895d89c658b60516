// A producer of token streams, and the floor that every relay is compared with.
//
// An HTTP/1.1 keep-alive server: each POST is answered with a chunked SSE stream, its first token TTFT after the
// request, the others one per step. All streams are stepped on one timer, back to back, as an LLM engine's decode loop
// does. Per token it makes one send() of bytes that were framed once at start, and nothing else: what it costs alone
// is the least that any server of such streams can cost.
//
// Prints {"event":"ready"} once it listens, and one line of totals when it is told to stop by SIGTERM or SIGINT.
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REQUEST = 64 * 1024, MAX_EVENT = 16 * 1024, BATCH = 1024 };
enum phase { READING, PREFILL, DECODING };

struct conn {
  int fd, phase, tokens_left, index;  // index: place in `active` while DECODING
  int partial;                        // bytes of the piece in hand that a full socket already took
  int64_t first_at_us;
  struct conn *next;                  // the queue of prefills; all have the same length, so it is in order of time
  int len, cap;
  char *request;
};

static int port = 0, default_tokens = 100, event_bytes = 170;
static double step_ms = 20, ttft_ms = 0;
static char token_piece[MAX_EVENT + 64], first_piece[MAX_EVENT + 512];
static int token_len, first_len;
static const char LAST_PIECE[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
static struct conn **active, *prefill_head, *prefill_tail;
static int active_len, active_cap, ep, prefill_timer;
static uint64_t tokens_sent, late_ticks, full_sockets, requests;

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void frame_pieces(void) {
  const char *before = "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                       "\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
  const char *after = "\"},\"finish_reason\":null}]}\n\n";
  int text = event_bytes - (int)strlen(before) - (int)strlen(after);
  if (text < 1) text = 1;
  char event[MAX_EVENT + 32];
  int len = sprintf(event, "%s%*s%s", before, text, "token", after);
  if (text < 5) len = sprintf(event, "%s%.*s%s", before, text, "token", after);
  token_len = sprintf(token_piece, "%x\r\n%s\r\n", len, event);
  first_len = sprintf(first_piece,
                      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
                      "transfer-encoding: chunked\r\n\r\n%s",
                      token_piece);
}

static void close_conn(struct conn *c) {
  if (c->phase == DECODING) {
    active[c->index] = active[--active_len];
    active[c->index]->index = c->index;
  } else if (c->phase == PREFILL) {
    struct conn **link = &prefill_head, *before = NULL;
    while (*link && *link != c) before = *link, link = &(*link)->next;
    if (*link) *link = c->next;
    if (prefill_tail == c) prefill_tail = before;
  }
  close(c->fd);
  free(c->request);
  free(c);
}

// Sends what is left of `piece`. A socket that is full keeps its place: the rest goes at the next step.
// 1: the piece is out. 0: not yet. -1: the connection is gone.
static int send_piece(struct conn *c, const char *piece, int len) {
  ssize_t n = send(c->fd, piece + c->partial, len - c->partial, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && errno != EAGAIN) return -1;
  if (n > 0) c->partial += (int)n;
  if (c->partial < len) {
    full_sockets++;
    return 0;
  }
  c->partial = 0;
  return 1;
}

static void arm_prefill(void) {
  struct itimerspec it = {{0, 0}, {0, 0}};
  if (prefill_head) {
    int64_t at = prefill_head->first_at_us;
    it.it_value.tv_sec = at / 1000000;
    it.it_value.tv_nsec = at % 1000000 * 1000 + 1;
  }
  timerfd_settime(prefill_timer, TFD_TIMER_ABSTIME, &it, NULL);
}

static void start_decoding(struct conn *c) {
  int sent = send_piece(c, first_piece, first_len);
  if (sent <= 0) {  // a fresh response's few hundred bytes always fit; anything else is a dead peer
    close_conn(c);
    return;
  }
  tokens_sent++;
  c->tokens_left--;
  c->phase = DECODING;
  if (active_len == active_cap) active = realloc(active, sizeof *active * (active_cap = active_cap ? active_cap * 2 : 1024));
  c->index = active_len;
  active[active_len++] = c;
}

static void run_prefills(void) {
  int64_t now = now_us();
  while (prefill_head && prefill_head->first_at_us <= now) {
    struct conn *c = prefill_head;
    prefill_head = c->next;
    if (!prefill_head) prefill_tail = NULL;
    c->phase = READING;
    start_decoding(c);
  }
  arm_prefill();
}

static void step(void) {
  for (int i = active_len - 1; i >= 0; i--) {  // backwards: the last one takes the place of one that ends
    struct conn *c = active[i];
    int sent = 0;
    if (c->tokens_left > 0) {
      sent = send_piece(c, token_piece, token_len);
      if (sent > 0) tokens_sent++, c->tokens_left--;
    }
    if (c->tokens_left == 0) {
      sent = send_piece(c, LAST_PIECE, sizeof LAST_PIECE - 1);
      if (sent > 0) {
        active[c->index] = active[--active_len];
        active[c->index]->index = c->index;
        c->phase = READING;
      }
    }
    if (sent < 0) close_conn(c);
  }
}

static void start_request(struct conn *c, const char *body) {
  const char *max = strcasestr(body, "\"max_tokens\"");
  if (!max) max = strcasestr(body, "\"max_completion_tokens\"");
  int tokens = default_tokens;
  if (max && (max = strchr(max, ':'))) tokens = atoi(max + 1);
  c->tokens_left = tokens > 0 ? tokens : 1;
  requests++;
  if (ttft_ms <= 0) {
    start_decoding(c);
    return;
  }
  c->phase = PREFILL;
  c->first_at_us = now_us() + (int64_t)(ttft_ms * 1000);
  c->next = NULL;
  if (prefill_tail) prefill_tail->next = c;
  else prefill_head = c;
  prefill_tail = c;
  if (prefill_head == c) arm_prefill();
}

static void answer_plain(struct conn *c, const char *status) {
  char text[160];
  int len = sprintf(text, "HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n", status);
  if (send(c->fd, text, len, MSG_NOSIGNAL) != len) shutdown(c->fd, SHUT_RDWR);
}

static void on_readable(struct conn *c) {
  if (c->len + 4096 > c->cap) c->request = realloc(c->request, c->cap += 8192);
  ssize_t n = read(c->fd, c->request + c->len, c->cap - c->len - 1);
  if (n <= 0 || c->len + n > MAX_REQUEST) {
    if (n < 0 && errno == EAGAIN) return;
    close_conn(c);
    return;
  }
  if (c->phase != READING) return;  // bytes behind a request that is being answered: our clients send none
  c->len += (int)n;
  c->request[c->len] = 0;
  char *end = strstr(c->request, "\r\n\r\n");
  if (!end) return;
  char *length = strcasestr(c->request, "\r\ncontent-length:");
  int head = (int)(end + 4 - c->request), body = length && length < end ? atoi(length + 17) : 0;
  if (body < 0 || head + body > c->len) return;
  c->len = 0;
  if (strncmp(c->request, "POST ", 5) == 0) start_request(c, end + 4);
  else answer_plain(c, "200 OK");
}

static void accept_all(int listener) {
  int one = 1;
  for (int s; (s = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct conn *c = calloc(1, sizeof *c);
    c->fd = s;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
  }
}

static void print_totals(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  double cpu = r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
  printf("{\"event\":\"totals\",\"requests\":%lu,\"tokens\":%lu,\"cpu_us_per_token\":%.3f,\"late_ticks\":%lu,\"full_sockets\":%lu}\n",
         requests, tokens_sent, tokens_sent ? cpu * 1e6 / tokens_sent : 0, late_ticks, full_sockets);
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s --port N [--tokens 100] [--step-ms 20] [--ttft-ms 0] [--event-bytes 170]\n", program);
  return 2;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"port", 1, 0, 'p'},    {"tokens", 1, 0, 't'},      {"step-ms", 1, 0, 's'},
                                          {"ttft-ms", 1, 0, 'f'}, {"event-bytes", 1, 0, 'e'}, {0}};
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (o == 'p') port = atoi(optarg);
    else if (o == 't') default_tokens = atoi(optarg);
    else if (o == 's') step_ms = atof(optarg);
    else if (o == 'f') ttft_ms = atof(optarg);
    else if (o == 'e') event_bytes = atoi(optarg);
    else return usage(argv[0]);
  }
  if (port < 1 || port > 65535 || default_tokens < 1 || step_ms < 0.1 || event_bytes > MAX_EVENT) return usage(argv[0]);
  frame_pieces();

  int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void *)&a, sizeof a) || listen(listener, 4096)) {
    perror("listen");
    return 1;
  }
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigprocmask(SIG_BLOCK, &stop, NULL);
  int signals = signalfd(-1, &stop, 0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  prefill_timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct timespec period = {(time_t)(step_ms / 1000), (long)(step_ms * 1e6) % 1000000000L};
  struct itimerspec it = {period, period};
  timerfd_settime(timer, 0, &it, NULL);

  ep = epoll_create1(0);
  int special[] = {listener, signals, timer, prefill_timer};  // told from connections by their address
  for (int i = 0; i < 4; i++) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &special[i]};
    epoll_ctl(ep, EPOLL_CTL_ADD, special[i], &e);
  }
  printf("{\"event\":\"ready\"}\n");
  fflush(stdout);

  static struct epoll_event events[BATCH];
  for (;;) {
    int n = epoll_wait(ep, events, BATCH, -1), stepped = 0, prefilled = 0;
    for (int i = 0; i < n; i++) {  // connections first: a step may free one that this batch still names
      void *what = events[i].data.ptr;
      uint64_t expirations;
      if (what == &special[1]) {
        print_totals();
        return 0;
      }
      if (what == &special[0]) accept_all(listener);
      else if (what == &special[2]) {
        if (read(timer, &expirations, sizeof expirations) > 0) stepped = 1, late_ticks += expirations - 1;
      } else if (what == &special[3]) {
        if (read(prefill_timer, &expirations, sizeof expirations) > 0) prefilled = 1;
      } else on_readable(what);
    }
    if (prefilled) run_prefills();
    if (stepped) step();
  }
}
