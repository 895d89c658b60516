/** What must hold of a simulated net, at any time and at the end. */
import { BATCH_HEADER_BYTES, decodeRecords, readU32, RecordType } from "../../src/mux/wire/batch.ts";
import { classifyFrame, FrameKind, isTerminal } from "../../src/mux/wire/stream_frame.ts";
import type { MuxNet, NetLane, NetNode } from "../support/mux_net.ts";
import type { SimStream } from "./sim_stream.ts";

/** Checks every live stream's window: never over C, and conserved where everything on the way can be seen. */
export function checkWindows(net: MuxNet, streams: Iterable<SimStream>): void {
  for (const stream of streams) {
    const { slot } = stream.anchor;
    const window = stream.anchor.ticket.initialCredit;
    if (stream.anchor.buffered > window + 1) {
      stream.fail(`${stream.anchor.buffered} items wait for a window of ${window}`);
    }
    if (slot === null || slot.closed) continue;
    if (slot.bytes < 0) stream.fail(`its slot is charged ${slot.bytes} bytes`);
    if (slot.outstanding > window || slot.buffered > window + 1) {
      stream.fail(`outstanding ${slot.outstanding}, buffered ${slot.buffered} of ${window}`);
    }
    if (slot.buffered !== stream.anchor.buffered) {
      stream.fail(`the ledger holds ${slot.buffered} records, the anchor ${stream.anchor.buffered}`);
    }
    if (!stream.hostile) checkConservation(net, stream);
  }
}

/** What slots are charged is what their peers are charged. Only while every peer is still known. */
export function checkBytes(nodes: readonly NetNode[], streams: readonly SimStream[]): void {
  for (const node of nodes) {
    const theirs = streams.filter(({ front, anchor }) =>
      front === node && !anchor.over && anchor.slot !== null
    );
    const charged = theirs.reduce((sum, { anchor }) => sum + anchor.slot!.bytes, 0);
    if (charged !== node.mux.bytesHeld) {
      theirs[0]?.fail(`its node charges peers ${node.mux.bytesHeld} bytes and slots ${charged}`);
      if (theirs.length === 0) streams[0]?.fail(`${node.id} charges ${node.mux.bytesHeld} bytes for nothing`);
    }
  }
}

function checkConservation(net: MuxNet, stream: SimStream): void {
  const { sender, anchor, front, worker } = stream;
  const slot = anchor.slot!;
  if (sender === null || sender.ended !== null || sender.slot !== slot.id || slot.terminated) return;
  // Staged records cannot be seen from outside.
  if (front.mux.stats.stagedRecords > 0 || worker.mux.stats.stagedRecords > 0) return;
  const there = net.lane(worker.id, front.id, sender.lane);
  const back = net.lane(front.id, worker.id, sender.lane);
  if (there.down || back.down) return;
  const freeBeats = anchor.ticket.freeBeats;
  let flying = 0;
  eachRecord(there, (bytes, type, id, start, end) => {
    if (id !== slot.id) return;
    if (type === RecordType.heartbeat ? !freeBeats : type === RecordType.data) {
      if (type === RecordType.heartbeat || !isTerminal(classifyFrame(bytes, start, end))) flying++;
    }
  });
  let granted = 0;
  eachRecord(back, (bytes, type, id, start) => {
    if (type === RecordType.creditUpdate && id === slot.id) granted += readU32(bytes, start);
  });
  let held = 0;
  for (const record of slot.held?.values() ?? []) {
    if (record !== null && classifyFrame(record, 0, record.length) <= FrameKind.heartbeat) held++;
  }
  const total = sender.credit + flying + granted + held + slot.outstanding;
  if (total !== anchor.ticket.initialCredit) {
    stream.fail(
      `credit is not conserved: owner ${sender.credit}, on the way ${flying}, held ${held}, outstanding ` +
        `${slot.outstanding}, grants on the way ${granted}, window ${anchor.ticket.initialCredit}`,
    );
  }
}

function eachRecord(
  lane: NetLane,
  visit: (bytes: Uint8Array, type: RecordType, id: number, start: number, end: number) => void,
): void {
  for (const bytes of [...lane.wire, ...lane.waiting.map((queued) => queued.bytes)]) {
    if (bytes.length < BATCH_HEADER_BYTES) continue;
    decodeRecords(bytes, (bytes[2]! << 8) | bytes[3]!, {
      onRecord: (type, id, _seq, start, end) => visit(bytes, type, id, start, end),
    });
  }
}

/** Whether a stream is over at both ends (as far as both ends still exist). */
export function isSettled(stream: SimStream, alive: (node: NetNode) => boolean): boolean {
  const { sender, front, worker } = stream;
  return (stream.over || !alive(front)) && (sender === null || sender.ended !== null || !alive(worker));
}

/** The end of one stream, once everything has had its time. */
export function judge(stream: SimStream, alive: (node: NetNode) => boolean): void {
  const { sender, ends, finish, sent, received } = stream;
  if (stream.senderEnds.length > 1) stream.fail(`its sender ended ${stream.senderEnds.length} times`);
  if (sender !== null && alive(stream.worker)) {
    // The producer is told of every end but the one it has made itself.
    const told = sender.ended === "finished" || sender.ended === "closed" ? 0 : 1;
    if (sender.ended === null) stream.fail("its sender has no end");
    else if (stream.senderEnds.length !== told) {
      stream.fail(`its sender ended "${sender.ended}" and told so ${stream.senderEnds.length} times`);
    }
  }
  if (!alive(stream.front) && ends.length === 0) return;
  if (stream.cancelled ? ends.length > 0 : ends.length !== 1) {
    stream.fail(`${ends.length} ends${stream.cancelled ? " after a cancel" : ""}`);
    return;
  }
  if (stream.hostile) return;
  if (received > sent) stream.fail(`received ${received} of ${sent} items`);
  const end = ends[0];
  if (end === undefined) return;
  if (end.kind === "finalized") {
    if (finish !== "finalized" || received !== sent) {
      stream.fail(`finalized with ${received} of ${sent} items after "${finish}"`);
    }
  } else if (end.kind === "transport_error") {
    if (finish !== "failed" || received !== sent || end.message !== `stream ${stream.id} failed`) {
      stream.fail(`failed with ${received} of ${sent} items after "${finish}"`);
    }
  } else if (end.kind === "protocol") {
    stream.fail(`broke the protocol: ${end.reason}`);
  }
  if (stream.touched) return;
  const overflowed = sender?.ended === "overflow";
  const wanted = overflowed || finish === "dropped"
    ? "dropped"
    : finish === "failed"
    ? "transport_error"
    : finish === "finalized"
    ? "finalized"
    : "timeout";
  if (end.kind !== wanted) {
    stream.fail(`ended "${end.kind}" (${JSON.stringify(end)}) and nothing had touched it after "${finish}"`);
  }
  if (wanted === "dropped" && !overflowed && received !== sent) {
    stream.fail(`dropped with ${received} of ${sent} items`);
  }
}

/** Nothing is left of anything. */
export function judgeNode(node: NetNode, fail: (what: string) => void): void {
  const { stats, timers } = node.mux;
  const left = {
    anchors: stats.liveAnchors,
    ingress: stats.liveIngressSlots,
    egress: stats.liveEgressSlots,
    held: stats.heldRecords,
    withheld: stats.withheldRecords,
    staged: stats.stagedRecords,
    stalls: stats.readerStalls,
    refused: stats.controlRefused,
    deadlines: timers.entries,
    timers: timers.timers,
    peerBytes: node.mux.bytesHeld,
  };
  for (const [name, value] of Object.entries(left)) {
    if (value !== 0) fail(`node ${node.id}: ${name} is ${value} at the end`);
  }
}
