/**
 * openucx/ucx#3337, #4870: loading the library took over SIGSEGV and others from the runtime, and SIGHUP too, on which it
 * stopped the process. `UCX_ERROR_SIGNALS`, empty, and `UCX_DEBUG_SIGNO`, 0, set before it is loaded, prevent that,
 * whatever the operator had set them to.
 */
import { assert, assertEquals } from "@std/assert";
import { PeerProcess } from "../support/peer_process.ts";
import { ucxTest } from "../ucx/support.ts";

ucxTest("Loading UCX leaves the runtime's signal handlers alone", async () => {
  const masks: string[] = [];
  for (const transport of ["tcp", "ucx"] as const) {
    await using peer = await PeerProcess.start({
      transport,
      env: { UCX_TLS: "tcp", UCX_ERROR_SIGNALS: "SIGILL,SIGSEGV,SIGBUS,SIGFPE", UCX_DEBUG_SIGNO: "SIGHUP" },
    });
    masks.push((await peer.ask({ do: "report" })).signals!);
  }
  assert(/^[0-9a-f]+$/.test(masks[0]!));
  assertEquals(masks[1], masks[0], "the masks of caught signals, without and with UCX");
});
