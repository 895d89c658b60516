/**
 * Many sends by one system call: an io_uring of this isolate's own, driven through FFI.
 *
 * The sends of one flush are entered in the submission queue and handed to the kernel together, which works them off
 * one after the other before the call returns. That saves a system call per token, and both sides run hot: the program
 * frames chunk after chunk, then the kernel sends chunk after chunk. Nothing is ever left under way when a call of this
 * file returns, so no buffer has to be kept for the kernel beyond it.
 *
 * Offsets are those of `struct io_uring_sqe` (64 bytes), `io_uring_cqe` (16) and `io_uring_params` (120) of the kernel's
 * stable interface, `linux/io_uring.h`.
 */
import { enterDescriptor } from "./direct_send.ts";

/** Sends that one call hands over. A client that was woken by the first ones reads while the rest go out. */
const ENTRIES = 128;

const SYS_IO_URING_SETUP = 425;
const SYS_IO_URING_ENTER = 426;
const ENTER_GETEVENTS = 1;
const OP_SEND = 26;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const FEATURES_NEEDED = 0b11; // SINGLE_MMAP and NODROP: Linux 5.5
const OFFSET_RINGS = 0n;
const OFFSET_ENTRIES = 0x1000_0000n;
const PROT_READ_WRITE = 3;
const MAP_SHARED_POPULATE = 0x8001;
const SQE_WORDS = 16;
const CQE_WORDS = 4;

const SYMBOLS = {
  setup: { name: "syscall", parameters: ["i64", "u32", "buffer"], result: "i64" },
  enter: {
    name: "syscall",
    parameters: ["i64", "i32", "u32", "u32", "u32", "usize", "usize"],
    result: "i64",
  },
  mmap: { parameters: ["usize", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Told how its send went, if it asked for that or the kernel did not take everything. */
export interface RingTarget {
  /** Of `buffer[start, end)` the kernel took `sent` bytes; a negative number is its error. Should not throw. */
  onSent(sent: number, buffer: Uint8Array<ArrayBuffer>, start: number, end: number): void;
}

interface Mapped {
  readonly lib: Deno.DynamicLibrary<typeof SYMBOLS>;
  readonly descriptor: number;
  readonly entries: Uint32Array;
  readonly tail: Uint32Array;
  readonly entryMask: number;
  readonly completionHead: Uint32Array;
  readonly completionTail: Uint32Array;
  readonly completionMask: number;
  readonly completions: Int32Array;
}

let opened: SendRing | null | undefined;

/** The sends of one isolate. */
export class SendRing {
  readonly #mapped: Mapped;
  /** Hand-overs so far; written here alone. A send still waits while this is what it was when `send` was called. */
  turn = 0;
  #batching = false;
  #count = 0;
  #tail = 0;
  /** What the first target of this hand-over threw, until all have been told. */
  #thrown: { readonly error: unknown } | null = null;
  readonly #targets: (RingTarget | null)[] = new Array(ENTRIES).fill(null);
  readonly #buffers: (Uint8Array<ArrayBuffer> | null)[] = new Array(ENTRIES).fill(null);
  readonly #starts = new Int32Array(ENTRIES);
  readonly #ends = new Int32Array(ENTRIES);
  readonly #wantsResult = new Uint8Array(ENTRIES);
  // Where the last buffer lies: chunks of one flush share theirs, and asking costs.
  #lastBuffer: Uint8Array<ArrayBuffer> | null = null;
  #addressLow = 0;
  #addressHigh = 0;

  private constructor(mapped: Mapped) {
    this.#mapped = mapped;
  }

  /** This isolate's ring, or null where the kernel has none for us. */
  static open(): SendRing | null {
    if (opened === undefined) {
      const mapped = mapRing();
      opened = mapped === null ? null : new SendRing(mapped);
    }
    return opened;
  }

  /** What is sent from now on may wait for `flush`. */
  begin(): void {
    this.#batching = true;
  }

  /** Hands over everything that waits. Targets have been told when it returns. */
  flush(): void {
    this.#batching = false;
    this.submit();
  }

  /**
   * Sends `buffer[start, end)`, which must not change until it has been handed over. One send per target at a time: the
   * order of two would be lost if the first fell short.
   *
   * @param wantsResult whether the target is told of a send that went well, too
   */
  send(
    descriptor: number,
    buffer: Uint8Array<ArrayBuffer>,
    start: number,
    end: number,
    target: RingTarget,
    wantsResult: boolean,
  ): void {
    if (buffer !== this.#lastBuffer) this.#locate(buffer);
    const slot = this.#tail & this.#mapped.entryMask;
    this.#tail = (this.#tail + 1) >>> 0;
    const at = slot * SQE_WORDS;
    const { entries } = this.#mapped;
    let low = this.#addressLow + start;
    let high = this.#addressHigh;
    if (low > 0xffff_ffff) {
      low -= 0x1_0000_0000;
      high++;
    }
    entries[at] = OP_SEND;
    entries[at + 1] = descriptor;
    entries[at + 4] = low;
    entries[at + 5] = high;
    entries[at + 6] = end - start;
    entries[at + 7] = MSG_DONTWAIT | MSG_NOSIGNAL;
    entries[at + 8] = slot;
    this.#targets[slot] = target;
    this.#buffers[slot] = buffer;
    this.#starts[slot] = start;
    this.#ends[slot] = end;
    this.#wantsResult[slot] = wantsResult ? 1 : 0;
    if (++this.#count === ENTRIES || !this.#batching) this.submit();
  }

  /** Hands over what waits, in the middle of a batch too. */
  submit(): void {
    const count = this.#count;
    if (count === 0) return;
    this.#count = 0;
    this.turn++;
    this.#mapped.tail[0] = this.#tail;
    let left = count;
    while (left > 0) {
      const taken = this.#enter(left);
      if (taken <= 0) break;
      left -= taken;
    }
    this.#reap();
    if (left > 0) this.#takeBack(left);
    const thrown = this.#thrown;
    if (thrown === null) return;
    this.#thrown = null;
    throw thrown.error;
  }

  /** Returns how many sends the kernel took; it takes all of them unless it is out of memory. */
  #enter(count: number): number {
    const { lib, descriptor } = this.#mapped;
    // Asking for all completions makes the call return with every send done, even one that a kernel would defer.
    const enter = BigInt(SYS_IO_URING_ENTER);
    return Number(lib.symbols.enter(enter, descriptor, count, count, ENTER_GETEVENTS, 0n, 0n));
  }

  /** The kernel would not take the last `count` sends: to their targets they are sends of which it took nothing. */
  #takeBack(count: number): void {
    const { tail, entryMask } = this.#mapped;
    const first = (this.#tail - count) >>> 0;
    this.#tail = first;
    tail[0] = first;
    for (let i = 0; i < count; i++) this.#settle((first + i) & entryMask, 0);
  }

  #settle(slot: number, sent: number): void {
    const target = this.#targets[slot]!;
    const buffer = this.#buffers[slot]!;
    this.#targets[slot] = null;
    this.#buffers[slot] = null;
    const start = this.#starts[slot]!;
    const end = this.#ends[slot]!;
    // Nearly every send: its target, whose memory is cold by now, is not touched.
    if (sent === end - start && this.#wantsResult[slot] === 0) return;
    try {
      target.onSent(sent, buffer, start, end);
    } catch (error) {
      // Those behind it have been sent too, out of memory that will be used again: they are told now or never.
      this.#thrown ??= { error };
    }
  }

  #reap(): void {
    const { completionHead, completionTail, completionMask, completions } = this.#mapped;
    const tail = completionTail[0]!;
    let head = completionHead[0]!;
    while (head !== tail) {
      const at = (head & completionMask) * CQE_WORDS;
      const slot = completions[at]!;
      const sent = completions[at + 2]!;
      head = (head + 1) >>> 0;
      completionHead[0] = head;
      this.#settle(slot, sent);
    }
  }

  #locate(buffer: Uint8Array<ArrayBuffer>): void {
    this.#lastBuffer = buffer;
    const address = Deno.UnsafePointer.value(Deno.UnsafePointer.of(buffer));
    this.#addressLow = Number(address & 0xffff_ffffn);
    this.#addressHigh = Number(address >> 32n);
  }
}

/** Null when the kernel is too old, forbids it (`kernel.io_uring_disabled`, a container's filter), or is not Linux. */
function mapRing(): Mapped | null {
  if (Deno.build.os !== "linux") return null;
  try {
    const lib = Deno.dlopen("libc.so.6", SYMBOLS);
    const params = new DataView(new ArrayBuffer(120));
    const descriptor = Number(
      lib.symbols.setup(BigInt(SYS_IO_URING_SETUP), ENTRIES, new Uint8Array(params.buffer)),
    );
    if (descriptor < 0 || !enterDescriptor(descriptor)) return null;
    const word = (at: number) => params.getUint32(at, true);
    if ((word(20) & FEATURES_NEEDED) !== FEATURES_NEEDED) return null;
    const entryCount = word(0);
    const completionCount = word(4);
    const arrayAt = word(40 + 24);
    const completionsAt = word(80 + 20);
    const ringBytes = Math.max(arrayAt + entryCount * 4, completionsAt + completionCount * 16);
    const rings = map(lib, descriptor, ringBytes, OFFSET_RINGS);
    const entries = map(lib, descriptor, entryCount * 64, OFFSET_ENTRIES);
    if (rings === null || entries === null) return null;
    // Entry i of the queue is always submission i: the indirection is fixed once.
    new Uint32Array(rings, arrayAt, entryCount).forEach((_, i, array) => array[i] = i);
    return {
      lib,
      descriptor,
      entries: new Uint32Array(entries),
      tail: new Uint32Array(rings, word(40 + 4), 1),
      entryMask: entryCount - 1,
      completionHead: new Uint32Array(rings, word(80), 1),
      completionTail: new Uint32Array(rings, word(80 + 4), 1),
      completionMask: completionCount - 1,
      completions: new Int32Array(rings, completionsAt, completionCount * CQE_WORDS),
    };
  } catch {
    return null; // no libc of that name, or no permission to load it
  }
}

/** Memory that stays mapped for the life of the process, as nothing says when the last view of it is gone. */
function map(
  lib: Deno.DynamicLibrary<typeof SYMBOLS>,
  descriptor: number,
  bytes: number,
  offset: bigint,
): ArrayBuffer | null {
  const pointer = lib.symbols.mmap(
    0n,
    BigInt(bytes),
    PROT_READ_WRITE,
    MAP_SHARED_POPULATE,
    descriptor,
    offset,
  );
  if (pointer === null || Deno.UnsafePointer.value(pointer) === 0xffff_ffff_ffff_ffffn) return null;
  return Deno.UnsafePointerView.getArrayBuffer(pointer, bytes);
}
