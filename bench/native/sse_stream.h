// Reads one HTTP/1.1 response that carries server-sent events: head, chunked framing, lines, events. Allocates nothing
// and copies only the first bytes of each line; it is fed whatever a read() returned, cut anywhere.
#ifndef SSE_STREAM_H
#define SSE_STREAM_H
#define _GNU_SOURCE
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_CAP = 4096, LINE_CAP = 20 };
enum framing { IN_HEAD, IN_SIZE, IN_EXTENSION, IN_DATA, IN_DATA_END, IN_TRAILER, IN_LENGTH, AT_END, BROKEN };

struct sse_stream {
  uint8_t framing, has_data, is_done_event, is_error_event;  // the last three are about the event being read
  uint8_t done, errors;                                      // [DONE] was read; error events, counted up to 255
  uint16_t status, head_len, line_len;
  uint32_t events;       // events with data, [DONE] and errors not counted
  uint64_t left, bytes;  // of this chunk or body; of the whole body
  char line[LINE_CAP], head[HEAD_CAP];
};

static inline void sse_reset(struct sse_stream *s) { memset(s, 0, offsetof(struct sse_stream, line)); }

static inline int sse_line_starts(const struct sse_stream *s, const char *text) {
  size_t len = strlen(text);
  return s->line_len >= len && memcmp(s->line, text, len) == 0;
}

static inline void sse_line_end(struct sse_stream *s) {
  if (s->line_len && s->line_len <= LINE_CAP && s->line[s->line_len - 1] == '\r') s->line_len--;
  if (s->line_len == 0) {
    if (s->is_done_event) s->done = 1;
    else if (s->is_error_event) s->errors += s->errors < 255;
    else if (s->has_data) s->events++;
    s->has_data = s->is_done_event = s->is_error_event = 0;
  } else if (sse_line_starts(s, "data:")) {
    int at = s->line_len > 5 && s->line[5] == ' ' ? 6 : 5;
    int have = (s->line_len < LINE_CAP ? s->line_len : LINE_CAP) - at;
    s->has_data = 1;
    if (have == 6 && memcmp(s->line + at, "[DONE]", 6) == 0) s->is_done_event = 1;
    if (have >= 8 && memcmp(s->line + at, "{\"error\"", 8) == 0) s->is_error_event = 1;
  } else if (sse_line_starts(s, "event: error")) {
    s->is_error_event = 1;
  }
  s->line_len = 0;
}

static inline void sse_body(struct sse_stream *s, const char *p, size_t n) {
  s->bytes += n;
  while (n) {
    const char *lf = memchr(p, '\n', n);
    size_t part = lf ? (size_t)(lf - p) : n;
    if (s->line_len < LINE_CAP) {
      size_t keep = part < (size_t)(LINE_CAP - s->line_len) ? part : (size_t)(LINE_CAP - s->line_len);
      memcpy(s->line + s->line_len, p, keep);
    }
    s->line_len = s->line_len + part > 60000 ? 60000 : s->line_len + part;
    if (!lf) return;
    sse_line_end(s);
    p += part + 1;
    n -= part + 1;
  }
}

// Takes head bytes up to the blank line; how many it used. The head is kept, ended by a NUL, in `head`.
static inline size_t sse_head(struct sse_stream *s, const char *p, size_t n) {
  size_t before = s->head_len, room = HEAD_CAP - 1 - before, take = n < room ? n : room;
  memcpy(s->head + before, p, take);
  s->head[before + take] = 0;
  char *end = strstr(s->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
  if (!end) {
    s->head_len = before + take;
    if (take < n) s->framing = BROKEN;
    return take;
  }
  end[4] = 0;
  s->head_len = (uint16_t)(end + 4 - s->head);
  s->status = strncmp(s->head, "HTTP/1.", 7) == 0 ? (uint16_t)atoi(s->head + 9) : 0;
  char *length = strcasestr(s->head, "\r\ncontent-length:");
  if (s->status < 100) s->framing = BROKEN;
  else if (strcasestr(s->head, "\r\ntransfer-encoding: chunked")) s->framing = IN_SIZE;
  else if (length) s->framing = (s->left = strtoull(length + 17, NULL, 10)) ? IN_LENGTH : AT_END;
  else s->framing = BROKEN;
  return s->head_len - before;
}

static inline int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Feeds what was read. Stops at the end of the response (AT_END) or at the first byte that breaks its framing
// (BROKEN); how many bytes were used.
static inline size_t sse_feed(struct sse_stream *s, const char *start, size_t size) {
  const char *p = start, *end = start + size;
  while (p < end && s->framing < AT_END) {
    switch (s->framing) {
      case IN_HEAD: p += sse_head(s, p, end - p); break;
      case IN_SIZE: {
        int digit = hex_digit(*p);
        if (digit >= 0 && s->left < 1ull << 40) s->left = s->left * 16 + digit, p++;
        else if (*p == '\r' || *p == ';') s->framing = IN_EXTENSION;
        else s->framing = BROKEN;
        break;
      }
      case IN_EXTENSION:  // up to the end of the size line
        if (*p++ == '\n') s->framing = s->left ? IN_DATA : IN_TRAILER, s->line_len = s->left ? s->line_len : 0;
        break;
      case IN_DATA:
      case IN_LENGTH: {
        size_t part = (uint64_t)(end - p) < s->left ? (size_t)(end - p) : (size_t)s->left;
        sse_body(s, p, part);
        p += part;
        if ((s->left -= part) == 0) s->framing = s->framing == IN_DATA ? IN_DATA_END : AT_END;
        break;
      }
      case IN_DATA_END:
        if (*p == '\n') s->framing = IN_SIZE;
        else if (*p != '\r') s->framing = BROKEN;
        p++;
        break;
      case IN_TRAILER:  // a blank line ends the response
        if (*p == '\n') s->framing = s->line_len ? IN_TRAILER : AT_END, s->line_len = 0;
        else if (*p != '\r') s->line_len = 1;
        p++;
        break;
    }
  }
  return p - start;
}
#endif
