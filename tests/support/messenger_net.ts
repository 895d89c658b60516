/** Messengers on an in-memory network with virtual time. */
import { Messenger } from "../../src/messenger/messenger.ts";
import type { MessengerOptions } from "../../src/messenger/messenger_options.ts";
import { MemoryNetwork, type MemoryNetworkOptions } from "../../transports/memory/memory_network.ts";
import { VirtualClock } from "./virtual_clock.ts";

/** One test's messengers. Names are `node-1`, `node-2`, … in order of creation. */
export class MessengerNet {
  readonly clock = new VirtualClock();
  readonly network: MemoryNetwork;
  readonly #messengers: Messenger[] = [];

  constructor(options: Omit<MemoryNetworkOptions, "clock"> = {}) {
    this.network = new MemoryNetwork({ clock: this.clock, ...options });
  }

  /** A started messenger; `prepare` adds handlers before it starts. */
  async node(options: Partial<MessengerOptions> & { lanes?: number } = {}): Promise<Messenger> {
    const { lanes, ...rest } = options;
    const transport = this.network.transport(lanes === undefined ? {} : { lanes });
    const messenger = new Messenger({ transports: [transport], clock: this.clock, ...rest });
    await messenger.start();
    this.#messengers.push(messenger);
    return messenger;
  }

  /** Two messengers that know each other. */
  async pair(options: Partial<MessengerOptions> = {}): Promise<[Messenger, Messenger]> {
    const [a, b] = [await this.node(options), await this.node(options)];
    a.registerPeer(b.peerInfo);
    b.registerPeer(a.peerInfo);
    return [a, b];
  }

  /** Lets virtual time pass until the promise settles. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settled = (): void => void (isSettled = true);
    promise.then(settled, settled);
    for (let i = 0; i < 100_000 && !isSettled; i++) await this.clock.advanceAsync(1);
    return await promise;
  }

  /** Lets `ms` of virtual time pass. */
  pass(ms = 10): Promise<void> {
    return this.clock.advanceAsync(ms);
  }

  /** Shuts every messenger down; nothing of them may be left on the clock. */
  async close(): Promise<void> {
    await this.run(Promise.all(this.#messengers.map((messenger) => messenger.shutdown(1_000))));
    await this.clock.runUntilIdleAsync();
    if (this.clock.pendingTimers > 0) throw new Error(`${this.clock.pendingTimers} timers are left`);
  }
}
