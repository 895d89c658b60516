/** How a node tells others who it is and where it listens (wire: identity and registration). */
import type { InstanceId } from "../../transports/contract.ts";

/** As JSON: `{"instance_id":"<uuid>","worker_address":[<byte>,...]}`. */
export interface PeerInfo {
  readonly instanceId: InstanceId;
  /** MessagePack map of transport key to entry, entries as arrays of ints. */
  readonly workerAddress: Uint8Array;
}
