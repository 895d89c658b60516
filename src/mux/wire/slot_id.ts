/**
 * A stream's place in the mux of the side that opened it: `(index << 8) | generation`.
 *
 * The index is dense and reused; the generation tells one use from the next. Every u32 is a valid id.
 */

/** Largest slot index that fits the wire. */
export const MAX_SLOT_INDEX = 0xff_ffff;

/** Packs an index (0 to {@linkcode MAX_SLOT_INDEX}) and a generation (taken modulo 256). Throws `RangeError`. */
export function packSlot(index: number, generation: number): number {
  if (!Number.isInteger(index) || index < 0 || index > MAX_SLOT_INDEX) {
    throw new RangeError(
      `Cannot pack slot index "${index}": it must be an integer from 0 to ${MAX_SLOT_INDEX}`,
    );
  }
  return ((index << 8) | (generation & 0xff)) >>> 0;
}

/** The index of a slot id. */
export function slotIndex(id: number): number {
  return id >>> 8;
}

/** The generation of a slot id. */
export function slotGeneration(id: number): number {
  return id & 0xff;
}

/** The generation after `generation`; wraps at 256 and never touches the index. */
export function nextGeneration(generation: number): number {
  return (generation + 1) & 0xff;
}
