import { assertEquals } from "@std/assert";
import { Endpoint, type Endpoints } from "../../transports/ucx/endpoints.ts";
import { ErrorMode } from "../../transports/ucx/layouts.ts";
import { Liveness } from "../../transports/ucx/liveness.ts";
import { UcsStatus } from "../../transports/ucx/status.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const LIMITS = { dialTimeoutMs: 5_000, peerTimeoutMs: 10_000 };

/** One endpoint under watch. */
class World {
  readonly clock = new VirtualClock();
  readonly endpoint: Endpoint;
  probes = 0;
  kicks = 0;
  /** Whether the peer answers probes. */
  answers = true;
  readonly #liveness: Liveness;

  constructor(errorMode: number) {
    const endpoint = this.endpoint = new Endpoint("a", 1n, errorMode, null);
    const endpoints: Pick<Endpoints, "all" | "report" | "settleAbandoned"> = {
      all: () => [endpoint],
      report: (reported, status) => void (reported.failure = status),
      settleAbandoned: () => {},
    };
    this.#liveness = new Liveness(
      endpoints as Endpoints,
      this.clock,
      LIMITS,
      () => {
        this.probes++;
        if (this.answers) endpoint.hear();
      },
      () => this.kicks++,
    );
    this.#liveness.start();
  }

  /** Makes `count` sends outstanding. */
  outstanding(count: number): void {
    const { requests } = this.endpoint.sends;
    requests.length = 0;
    for (let i = 0; i < count; i++) requests.push(1n);
  }

  stop(): void {
    this.#liveness.stop();
    assertEquals(this.clock.pendingTimers, 0);
  }
}

for (
  const [name, mode] of [["watched by UCX", ErrorMode.peer], [
    "that UCX does not watch",
    ErrorMode.none,
  ]] as const
) {
  Deno.test(`Liveness lets an idle peer ${name} live for hours, at a probe or two a second at most`, () => {
    const world = new World(mode);
    world.endpoint.hear();
    world.clock.advance(3_600_000);
    assertEquals(world.endpoint.failure, 0);
    assertEquals(world.probes > 100 && world.probes < 7_200, true, `${world.probes} probes`);
    world.stop();
  });

  Deno.test(`Liveness gives up a peer ${name} that answers nothing any more`, () => {
    const world = new World(mode);
    world.endpoint.hear();
    world.clock.advance(60_000);
    world.answers = false;
    world.clock.advance(LIMITS.peerTimeoutMs - 1_000);
    assertEquals(world.endpoint.failure, 0);
    world.clock.advance(3_000);
    assertEquals([world.endpoint.failure, world.kicks], [UcsStatus.endpointTimeout, 1]);
    world.stop();
  });
}

Deno.test("Liveness does not take a slow peer for a dead one while sends to it are outstanding", () => {
  const world = new World(ErrorMode.peer);
  world.endpoint.hear();
  world.answers = false;
  for (let i = 0; i < 600; i++) {
    world.outstanding(1 + i % 3);
    world.clock.advance(100);
  }
  assertEquals(world.endpoint.failure, 0, "a minute of backlog");
  world.outstanding(0);
  world.clock.advance(LIMITS.peerTimeoutMs + 2_000);
  assertEquals(world.endpoint.failure, UcsStatus.endpointTimeout);
  world.stop();
});

Deno.test("Liveness gives up a peer in shared memory that takes nothing, although sends are outstanding", () => {
  const world = new World(ErrorMode.none);
  world.endpoint.hear();
  world.answers = false;
  world.outstanding(64);
  world.clock.advance(LIMITS.peerTimeoutMs + 2_000);
  assertEquals(world.endpoint.failure, UcsStatus.endpointTimeout);
  world.stop();
});

Deno.test("Liveness gives up an endpoint that does not connect within the dial time", () => {
  const world = new World(ErrorMode.peer);
  world.answers = false;
  world.outstanding(3);
  world.clock.advance(LIMITS.dialTimeoutMs - 100);
  assertEquals(world.endpoint.failure, 0);
  world.clock.advance(1_100);
  assertEquals(world.endpoint.failure, UcsStatus.endpointTimeout);
  world.stop();
});
