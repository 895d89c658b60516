/**
 * The seam between what makes tokens, what shows tokens, and how they travel. Every plane passes
 * `tests/contract/plane_suite.ts`.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Anchor, Sender, StreamConsumer, Ticket } from "../stream.ts";

/** One way of getting response streams from a worker back to a frontend. */
export interface ResponsePlane {
  /** Frontend: a new stream from `producer` (null: anyone who holds the ticket). */
  register(consumer: StreamConsumer, producer: InstanceId | null): Anchor;
  /** Worker: the sending end for a ticket. Never throws: a stream that cannot be opened is one that has ended. */
  open(ticket: Ticket): Sender;
  /** Writes every record that is staged, whatever the flush policy; never blocks. */
  flushBatch(): void;
  /** Frontend: `callback` runs after all items that one read brought have been delivered. One per plane. */
  onDelivered(callback: () => void): void;
  /** Ends every stream, both directions. */
  close(): void;
}
