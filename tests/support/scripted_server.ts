/** An HTTP server on a real socket that answers byte for byte what a test's script says. */

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One connection as the script sees it. */
export class ScriptedConnection {
  readonly #conn: Deno.TcpConn;
  #pending = new Uint8Array();
  /** Head of the last request, with its request line. */
  head = "";
  body = "";

  constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    conn.setNoDelay(true);
  }

  /** Reads one request with a content-length; false when the client is gone. */
  async readRequest(): Promise<boolean> {
    for (;;) {
      const text = decoder.decode(this.#pending);
      const split = text.indexOf("\r\n\r\n");
      if (split >= 0) {
        const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
        const bodyAt = encoder.encode(text.slice(0, split)).length + 4;
        if (this.#pending.length >= bodyAt + length) {
          this.head = text.slice(0, split);
          this.body = decoder.decode(this.#pending.subarray(bodyAt, bodyAt + length));
          this.#pending = this.#pending.slice(bodyAt + length);
          return true;
        }
      }
      const more = await this.read();
      if (more === null) return false;
      const joined = new Uint8Array(this.#pending.length + more.length);
      joined.set(this.#pending);
      joined.set(more, this.#pending.length);
      this.#pending = joined;
    }
  }

  /** Next bytes as they come, null when the client closed or reset. */
  async read(most = 65_536): Promise<Uint8Array | null> {
    const buffer = new Uint8Array(most);
    const count = await this.#conn.read(buffer).catch(() => null);
    return count === null ? null : buffer.slice(0, count);
  }

  /** Resolves when the client has gone. */
  async gone(): Promise<void> {
    while (await this.read() !== null);
  }

  async write(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(bytes.subarray(at));
  }

  /** Starts a chunked response. */
  async start(contentType = "text/event-stream", status = "200 OK"): Promise<void> {
    await this.write(
      `HTTP/1.1 ${status}\r\ncontent-type: ${contentType}\r\ntransfer-encoding: chunked\r\n\r\n`,
    );
  }

  /** One chunk of a chunked response. */
  async chunk(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    if (bytes.length === 0) return;
    await this.write(`${bytes.length.toString(16)}\r\n`);
    await this.write(bytes);
    await this.write("\r\n");
  }

  /** Ends a chunked response. */
  async finish(): Promise<void> {
    await this.write("0\r\n\r\n");
  }

  /** A whole response with a content-length. */
  async answer(status: string, contentType: string, body: string): Promise<void> {
    const length = encoder.encode(body).length;
    await this.write(
      `HTTP/1.1 ${status}\r\ncontent-type: ${contentType}\r\ncontent-length: ${length}\r\n\r\n${body}`,
    );
  }

  /** Closes; with bytes of the client unread, the kernel makes that a reset. */
  close(): void {
    try {
      this.#conn.close();
    } catch {
      // Closed already, by the script or by the client.
    }
  }
}

/** Serves until disposed. `script` runs once per connection; its end closes the connection. */
export class ScriptedServer implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<ScriptedConnection>();
  readonly #scripts: Promise<void>[] = [];
  readonly #loop: Promise<void>;
  /** Connections accepted so far. */
  accepted = 0;

  constructor(script: (connection: ScriptedConnection) => Promise<void>) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#loop = this.#accept(script);
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  async #accept(script: (connection: ScriptedConnection) => Promise<void>): Promise<void> {
    for (;;) {
      const conn = await this.#listener.accept().catch(() => null);
      if (conn === null) return;
      this.accepted++;
      const connection = new ScriptedConnection(conn);
      this.#connections.add(connection);
      this.#scripts.push(
        script(connection).catch(() => {}).finally(() => {
          connection.close();
          this.#connections.delete(connection);
        }),
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#connections) connection.close();
    await this.#loop;
    await Promise.all(this.#scripts);
  }
}
