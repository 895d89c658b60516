import { assertEquals, assertThrows } from "@std/assert";
import { type ReplyingLane, ReplyScheduler } from "../../src/mux/reply_scheduler.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const LINGER_MS = 1;
const FLOOR_MS = 2;

class Lane implements ReplyingLane {
  lastReplyAt = -Infinity;
  owesReplies = false;
  readonly writtenAt: number[] = [];
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  writeReplies(): void {
    this.owesReplies = false;
    this.writtenAt.push(this.#clock.now());
  }
}

function world() {
  const clock = new VirtualClock();
  const scheduler = new ReplyScheduler(clock, LINGER_MS, FLOOR_MS);
  const lane = new Lane(clock);
  const read = (...of: Lane[]) => {
    for (const one of of.length > 0 ? of : [lane]) {
      one.owesReplies = true;
      scheduler.add(one);
    }
    scheduler.readEnded();
  };
  /** Reads at these times; when replies were written. */
  const written = (...at: number[]) => {
    lane.writtenAt.length = 0;
    for (const ms of at) {
      clock.advance(ms - clock.now());
      read();
    }
    clock.advance(10);
    return lane.writtenAt;
  };
  return { clock, scheduler, lane, read, written };
}

/** Brings a scheduler to the point where lingers have been found useless. */
function grownLonely() {
  const it = world();
  for (let step = 0; step < 8; step++) assertEquals(it.written(step * 20), [step * 20 + 1]);
  return it;
}

Deno.test("ReplyScheduler waits for company, and writes once for all that came", () => {
  assertEquals(world().written(0, 0.3, 0.6), [1]);
});

Deno.test("ReplyScheduler keeps the floor between two writes of a lane", () => {
  // The second is asked for at 1.5, allowed at 3, and 1 ms is the least that a timer waits.
  assertEquals(world().written(0, 1.5), [1, 3.5]);
});

Deno.test("ReplyScheduler waits no more once nothing has come during eight lingers, until it would have", () => {
  const { written } = grownLonely();
  assertEquals(written(200), [200]);
  // The next one follows within the linger: they would have shared a batch.
  assertEquals(written(220, 220.5), [220, 222.5]);
  assertEquals(written(240), [241]);
});

Deno.test("ReplyScheduler takes another lane for no company: it has batches of its own", () => {
  const { clock, read, lane } = world();
  const other = new Lane(clock);
  for (let step = 0; step < 9; step++) {
    clock.advance(20);
    read(lane);
    clock.advance(0.5);
    read(other);
  }
  clock.advance(0);
  // Both at once by now, each at the end of its own turn.
  assertEquals([lane.writtenAt.at(-1), other.writtenAt.at(-1)], [clock.now() - 0.5, clock.now()]);
});

Deno.test("ReplyScheduler that is alone writes once for all that one turn brought", () => {
  const { clock, read, lane } = grownLonely();
  clock.advance(20);
  lane.writtenAt.length = 0;
  read();
  read();
  assertEquals(lane.writtenAt, []);
  clock.advance(0);
  assertEquals(lane.writtenAt, [clock.now()]);
});

Deno.test("ReplyScheduler with a busy loop writes at the end of the turn, when the linger is over by then", () => {
  const { clock, read, lane } = world();
  read();
  clock.skip(5); // the timer was due 4 ms ago
  clock.advance(0);
  assertEquals(lane.writtenAt, [5]);
  clock.advance(20);
  read();
  clock.skip(3); // a long flush, in the same turn
  clock.advance(0);
  assertEquals(lane.writtenAt, [5, 28]);
  // A short turn: back to the timer.
  clock.advance(20);
  read();
  clock.advance(0.5);
  assertEquals(lane.writtenAt.length, 2);
  clock.advance(0.5);
  assertEquals(lane.writtenAt, [5, 28, 49]);
});

Deno.test("ReplyScheduler forgets a lane that is removed, with its timer or at the end of the turn", () => {
  for (const it of [world(), grownLonely()]) {
    const { clock, scheduler, lane, read } = it;
    clock.advance(20);
    const before = lane.writtenAt.length;
    read();
    scheduler.remove(lane);
    clock.advance(0);
    assertEquals([scheduler.pending, clock.pendingTimers, clock.pendingDeferred], [0, 0, 0]);
    clock.advance(20);
    assertEquals(lane.writtenAt.length, before);
    read();
    clock.advance(1);
    assertEquals(lane.writtenAt.length, before + 1);
  }
});

Deno.test("ReplyScheduler visits every lane, then and later, whichever throws", () => {
  const { clock, scheduler, lane, read } = world();
  const bad: ReplyingLane = {
    owesReplies: true,
    lastReplyAt: -Infinity,
    writeReplies() {
      throw new Error("no");
    },
  };
  scheduler.add(bad);
  read();
  assertThrows(() => clock.advance(1), Error, "no");
  assertEquals(lane.writtenAt, [1]);
  clock.advance(20);
  read();
  clock.advance(1);
  assertEquals(lane.writtenAt, [1, clock.now()]);
});
