// A load client for streamed chat completions, cheap enough not to be what is measured.
//
// N connections; each sends a request, reads the stream to its end, and sends the next (closed loop). A first part is
// warm-up. Lines of JSON on stdout: {"event":"begin"} and {"event":"end"} at the two ends of the measured window, so
// that whoever started the client can read the relay's CPU time there, then {"event":"result",…}. Streams that run
// at the end of the window are read to their end, uncounted but checked. Exit code 0 unless it could not start.
#include "sse_stream.h"

#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "tls.h"

enum { BATCH = 1024, READ_CAP = 256 * 1024, RETRY_US = 100000 };
enum phase { WARM_UP, MEASURED, DRAINING };
enum failure { CONNECT, STATUS, EARLY_CLOSE, FRAMING, TOKEN_COUNT, ERROR_EVENT, TIMEOUT, FAILURES };
static const char *const FAILURE_NAMES[] = {"connect", "status", "early_close", "framing", "token_count", "error_event", "timeout"};
enum state { IDLE, CONNECTING, HANDSHAKE, WAITING, STREAMING, STALLED, FINISHED };

struct conn {
  int fd, state, rounds_left, counted;  // counted: its request was sent inside the window
  uint32_t tokens;
  int64_t sent_us, last_us, retry_us;
  tls_conn *tls;
  struct sse_stream in;
};

static struct {
  int port, streams, rounds, tokens, extra_events, stall, mss, tls;
  double warmup_s, seconds, ramp_s, deadline_s;
  const char *path, *model;
} opt = {.streams = 512, .tokens = 100, .extra_events = 2, .path = "/v1/chat/completions", .model = "mock"};

static int ep, phase = WARM_UP, open_requests;
static char request[2048];
static int request_len;
static struct histogram ttft, gap;
static uint64_t tokens, merged, events, bytes, completed, all_completed, stalled, failures[FAILURES];
static char first_failure[256];

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static double cpu_seconds(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return r.ru_utime.tv_sec + r.ru_stime.tv_sec + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void drop(struct conn *c) {
  if (c->tls) tls_close(c->tls);
  c->tls = NULL;
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
}

static void fail(struct conn *c, enum failure why, int64_t now) {
  failures[why]++;
  if (!first_failure[0]) {
    int line = c->in.framing == IN_HEAD ? 0 : (int)strcspn(c->in.head, "\r\n");
    snprintf(first_failure, sizeof first_failure, "%s after %u events, head '%.*s'%s%s", FAILURE_NAMES[why], c->in.events,
             line < 80 ? line : 80, c->in.head, why == CONNECT ? ", " : "", why == CONNECT ? strerror(errno) : "");
    for (char *p = first_failure; *p; p++)
      if (*p == '"' || *p == '\\' || (unsigned char)*p < 32) *p = ' ';
  }
  drop(c);
  if (c->state == WAITING || c->state == STREAMING) open_requests--;
  if (opt.rounds && --c->rounds_left <= 0) c->state = FINISHED;
  else c->state = IDLE, c->retry_us = now + RETRY_US;
}

static void send_request(struct conn *c, int64_t now) {
  sse_reset(&c->in);
  c->tokens = 0;
  c->state = WAITING;
  c->counted = phase == MEASURED;
  c->sent_us = now;
  open_requests++;
  ssize_t sent = c->tls ? tls_send(c->tls, request, request_len) : send(c->fd, request, request_len, MSG_NOSIGNAL);
  if (sent != request_len) fail(c, EARLY_CLOSE, now);
}

static void open_conn(struct conn *c, int64_t now) {
  int one = 1;
  sse_reset(&c->in);
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (c->fd < 0) return fail(c, CONNECT, now);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (opt.mss) setsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &opt.mss, sizeof opt.mss);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(opt.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(c->fd, (void *)&a, sizeof a) && errno != EINPROGRESS) return fail(c, CONNECT, now);
  struct epoll_event e = {.events = EPOLLOUT, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
  c->state = CONNECTING;
}

static void on_handshake(struct conn *c, int64_t now) {
  int done = tls_handshake(c->tls);
  if (done < 0) return fail(c, CONNECT, now);
  if (done) send_request(c, now);
}

static void on_connected(struct conn *c, int64_t now) {
  int error = 0;
  socklen_t len = sizeof error;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
  if (error) {
    errno = error;
    return fail(c, CONNECT, now);
  }
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
  if (!opt.tls) return send_request(c, now);
  c->tls = tls_open(c->fd);
  c->state = HANDSHAKE;
  on_handshake(c, now);
}

static void on_response_end(struct conn *c, int64_t now) {
  if (c->in.status != 200) return fail(c, STATUS, now);
  if (c->in.errors) return fail(c, ERROR_EVENT, now);
  if (c->tokens != (uint32_t)opt.tokens || c->in.events > (uint32_t)(opt.tokens + opt.extra_events) || !c->in.done)
    return fail(c, TOKEN_COUNT, now);
  open_requests--;
  all_completed++;
  if (phase == MEASURED) completed++;
  if (opt.rounds && --c->rounds_left <= 0) {
    drop(c);
    c->state = FINISHED;
  } else if (phase == DRAINING) {
    drop(c);
    c->state = IDLE;
  } else {
    if (strcasestr(c->in.head, "\r\nconnection: close")) {
      drop(c);
      open_conn(c, now);
    } else {
      send_request(c, now);
    }
  }
}

static void note_arrivals(struct conn *c, uint32_t events_before, uint64_t bytes_before, int64_t now) {
  if (c->state == WAITING && c->in.bytes) {
    c->state = STREAMING;
    if (phase == MEASURED && c->counted) hist_add(&ttft, now - c->sent_us);
  }
  uint32_t arrived = c->in.events - events_before;
  for (uint32_t i = 0; i < arrived && c->tokens < (uint32_t)opt.tokens; i++) {
    if (phase == MEASURED) {
      if (c->tokens) hist_add(&gap, i ? 0 : now - c->last_us);
      if (i) merged++;
      tokens++;
    }
    c->tokens++;
  }
  if (arrived) c->last_us = now;
  if (phase == MEASURED) events += arrived, bytes += c->in.bytes - bytes_before;
}

static void on_readable(struct conn *c, char *buffer) {
  size_t cap = opt.stall ? 512 : READ_CAP;
  ssize_t n = c->tls ? tls_read(c->tls, buffer, cap) : read(c->fd, buffer, cap);
  int64_t now = now_us();
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) return fail(c, EARLY_CLOSE, now);
  uint32_t events_before = c->in.events;
  uint64_t bytes_before = c->in.bytes;
  size_t used = sse_feed(&c->in, buffer, n);
  note_arrivals(c, events_before, bytes_before, now);
  if (c->in.framing == BROKEN || used < (size_t)n) return fail(c, FRAMING, now);
  if (c->in.framing == AT_END) return on_response_end(c, now);
  if (opt.stall && c->in.events) {
    epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
    c->state = STALLED;
    stalled++;
  }
}

static void print_histogram(const char *name, const struct histogram *h) {
  printf(",\"%s\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f,\"count\":%lu}", name, hist_quantile(h, .5) / 1e3,
         hist_quantile(h, .9) / 1e3, hist_quantile(h, .99) / 1e3, h->max / 1e3, h->count);
}

static void print_result(double seconds, double cpu) {
  uint64_t errors = 0;
  printf("{\"event\":\"result\",\"streams\":%d,\"seconds\":%.3f,\"requests\":%lu,\"all_requests\":%lu,\"stalled\":%lu,\"tokens\":%lu,"
         "\"merged_tokens\":%lu,\"events\":%lu,\"body_bytes\":%lu,\"tokens_per_s\":%.1f",
         opt.streams, seconds, completed, all_completed, stalled, tokens, merged, events, bytes, seconds > 0 ? tokens / seconds : 0);
  print_histogram("ttft_ms", &ttft);
  print_histogram("gap_ms", &gap);
  printf(",\"client_cpu_us_per_token\":%.3f,\"client_core_share\":%.4f,\"errors\":{", tokens ? cpu * 1e6 / tokens : 0,
         seconds > 0 ? cpu / seconds : 0);
  for (int i = 0; i < FAILURES; i++) printf("%s\"%s\":%lu", i ? "," : "", FAILURE_NAMES[i], failures[i]), errors += failures[i];
  printf("},\"errors_total\":%lu,\"first_error\":\"%s\"}\n", errors, first_failure);
  fflush(stdout);
}

static void say(const char *event) {
  printf("{\"event\":\"%s\"}\n", event);
  fflush(stdout);
}

// Opens connections that are due. Whether every stream has done all its rounds.
static int start_due(struct conn *conns, int64_t start, int64_t now) {
  int finished = 1;
  for (int i = 0; i < opt.streams; i++) {
    struct conn *c = &conns[i];
    if (c->state == IDLE && phase != DRAINING && now >= c->retry_us && now >= start + (int64_t)(opt.ramp_s * 1e6 * i / opt.streams))
      open_conn(c, now);
    if (c->state != FINISHED) finished = 0;
  }
  return finished;
}

static void run(struct conn *conns) {
  static struct epoll_event batch[BATCH];
  char *buffer = malloc(READ_CAP);
  int64_t start = now_us(), now = start, begin = 0, end = 0, scan_at = 0;
  int64_t deadline = start + (int64_t)(opt.deadline_s * 1e6);
  double cpu = 0;
  for (;;) {
    if (phase == WARM_UP && now >= start + (int64_t)(opt.warmup_s * 1e6)) {
      phase = MEASURED;
      begin = now;
      cpu = cpu_seconds();
      say("begin");
    }
    int finished = 0;
    if (now >= scan_at) finished = start_due(conns, start, now), scan_at = now + 10000;
    int over = finished || now >= deadline || (!opt.rounds && begin && now >= begin + (int64_t)(opt.seconds * 1e6));
    if (phase == MEASURED && over) {
      phase = DRAINING;
      end = now;
      cpu = cpu_seconds() - cpu;
      say("end");
    }
    if (phase == DRAINING && (open_requests == 0 || opt.stall || now >= deadline)) break;
    int n = epoll_wait(ep, batch, BATCH, 10);
    now = now_us();
    for (int i = 0; i < n; i++) {
      struct conn *c = batch[i].data.ptr;
      if (c->state == CONNECTING) on_connected(c, now);
      else if (c->state == HANDSHAKE) on_handshake(c, now);
      else on_readable(c, buffer);
    }
  }
  if (!opt.stall && open_requests) {
    for (int i = 0; i < opt.streams; i++)
      if (conns[i].state == WAITING || conns[i].state == STREAMING) fail(&conns[i], TIMEOUT, now);
  }
  print_result((end - begin) / 1e6, cpu);
}

static int usage(const char *program) {
  fprintf(stderr,
          "usage: %s --port N [--streams 512] [--tokens 100] (--seconds S | --rounds R) [--warmup-seconds 0] [--ramp-seconds 0]\n"
          "  [--deadline-seconds warmup+seconds+30] [--extra-events 2] [--path /v1/chat/completions] [--model mock]\n"
          "  [--mss BYTES] [--tls] [--stall]   (--stall: stop reading behind the first event and hold the connection)\n",
          program);
  return 2;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"port", 1, 0, 'p'},         {"streams", 1, 0, 'n'},          {"tokens", 1, 0, 't'},
                                          {"seconds", 1, 0, 's'},      {"rounds", 1, 0, 'r'},           {"warmup-seconds", 1, 0, 'w'},
                                          {"ramp-seconds", 1, 0, 'u'}, {"deadline-seconds", 1, 0, 'd'}, {"extra-events", 1, 0, 'x'},
                                          {"path", 1, 0, 'a'},         {"model", 1, 0, 'm'},            {"mss", 1, 0, 'g'},
                                          {"stall", 0, 0, 'l'},        {"tls", 0, 0, 'e'},             {0}};
  for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (o) {
      case 'p': opt.port = atoi(optarg); break;
      case 'n': opt.streams = atoi(optarg); break;
      case 't': opt.tokens = atoi(optarg); break;
      case 's': opt.seconds = atof(optarg); break;
      case 'r': opt.rounds = atoi(optarg); break;
      case 'w': opt.warmup_s = atof(optarg); break;
      case 'u': opt.ramp_s = atof(optarg); break;
      case 'd': opt.deadline_s = atof(optarg); break;
      case 'x': opt.extra_events = atoi(optarg); break;
      case 'a': opt.path = optarg; break;
      case 'm': opt.model = optarg; break;
      case 'g': opt.mss = atoi(optarg); break;
      case 'l': opt.stall = 1; break;
      case 'e': opt.tls = 1; break;
      default: return usage(argv[0]);
    }
  }
  if (opt.port < 1 || opt.streams < 1 || opt.tokens < 1 || (opt.rounds < 1 && opt.seconds <= 0)) return usage(argv[0]);
  if (opt.deadline_s <= 0) opt.deadline_s = opt.warmup_s + opt.ramp_s + opt.seconds + 30;
  char body[1024];
  int body_len = snprintf(body, sizeof body,
                          "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Say something.\"}],\"prompt\":\"Say something.\","
                          "\"stream\":true,\"max_tokens\":%d}",
                          opt.model, opt.tokens);
  request_len = snprintf(request, sizeof request,
                         "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
                         opt.path, opt.port, body_len, body);
  if (body_len >= (int)sizeof body || request_len >= (int)sizeof request) return usage(argv[0]);
  if (opt.tls && !tls_start()) return fputs("TLS is not compiled in\n", stderr), 2;
  ep = epoll_create1(0);
  struct conn *conns = calloc(opt.streams, sizeof *conns);
  for (int i = 0; i < opt.streams; i++) conns[i].fd = -1, conns[i].rounds_left = opt.rounds;
  run(conns);
  return 0;
}
