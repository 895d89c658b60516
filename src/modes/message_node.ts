/** One node of the message network: transport, messenger and plane, started. */
import { addTransportMetrics } from "../../transports/metrics.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import type { HostPort } from "../config/host_port.ts";
import { systemClock } from "../clock.ts";
import { Messenger } from "../messenger/messenger.ts";
import { addMessengerMetrics } from "../messenger/metrics.ts";
import type { MuxOptions } from "../mux/options.ts";
import type { Logger } from "../observe/log.ts";
import type { Collectors } from "../observe/metrics.ts";
import { addMuxMetrics } from "../plane/mux_metrics.ts";
import { MuxPlane } from "../plane/mux_plane.ts";

/** How long what is written may take to leave at the end, ms. */
const SHUTDOWN_MS = 2_000;

/** What {@linkcode MessageNode.build} needs. */
export interface MessageNodeOptions {
  readonly listen: HostPort;
  readonly advertiseHost: string | null;
  /** What carries frames to peers that have it too; TCP carries the rest, and the first word to an address. */
  readonly transport: "tcp" | "ucx";
  readonly mux: Partial<MuxOptions> & Pick<MuxOptions, "lanes">;
  readonly log: Logger;
}

/** Build it, add handlers, start it. */
export class MessageNode {
  readonly messenger: Messenger;
  readonly plane: MuxPlane;
  readonly #tcp: TcpTransport;
  readonly #transports: readonly (TcpTransport | UcxTransport)[];

  /** Throws `invalid_config` for an option out of range. */
  constructor(options: MessageNodeOptions) {
    const { listen, advertiseHost, mux, log } = options;
    this.#tcp = new TcpTransport({
      hostname: listen.host,
      port: listen.port,
      lanes: mux.lanes,
      ...(advertiseHost === null ? {} : { advertiseHost }),
    });
    this.#transports = options.transport === "ucx"
      ? [new UcxTransport({ clock: systemClock }), this.#tcp]
      : [this.#tcp];
    this.messenger = new Messenger({ transports: this.#transports, clock: systemClock, log });
    this.plane = new MuxPlane(this.messenger, mux);
  }

  /** Where this node listens. Only after `start`. */
  get address(): HostPort {
    const { hostname, port } = this.#tcp.address;
    return { host: hostname, port };
  }

  /** Adds the series of transports, messenger and mux; once per isolate. */
  addMetrics(collectors: Collectors): void {
    addTransportMetrics(collectors, this.#transports);
    addMessengerMetrics(collectors, this.messenger);
    addMuxMetrics(collectors, this.plane.mux);
  }

  /** Throws `invalid_config` when the address cannot be had. */
  start(): Promise<void> {
    return this.messenger.start();
  }

  /** Ends every stream, writes out what is admitted, closes. */
  async close(): Promise<void> {
    this.plane.close();
    await this.messenger.shutdown(SHUTDOWN_MS);
  }
}
