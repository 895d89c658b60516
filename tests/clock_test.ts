import { assertEquals } from "@std/assert";
import { systemClock } from "../src/clock.ts";

Deno.test("systemClock.defer runs what one turn deferred in order, behind its microtasks, and what that defers in the next", async () => {
  const said: string[] = [];
  await new Promise<void>((resolve) => {
    systemClock.defer(() => {
      said.push("a");
      systemClock.defer(() => {
        said.push("c");
        resolve();
      });
    });
    systemClock.defer(() => said.push("b"));
    void Promise.resolve().then(() => said.push("microtask"));
  });
  assertEquals(said, ["microtask", "a", "b", "c"]);
});

Deno.test("systemClock.defer runs those behind one that throws", async () => {
  const caught: string[] = [];
  const onError = (event: ErrorEvent) => {
    event.preventDefault();
    caught.push(event.message);
  };
  addEventListener("error", onError);
  try {
    await new Promise<void>((resolve) => {
      systemClock.defer(() => {
        throw new Error("no");
      });
      systemClock.defer(resolve);
    });
  } finally {
    removeEventListener("error", onError);
  }
  assertEquals(caught.map((text) => text.replace(/^Uncaught (Error: )?/, "")), ["no"]);
});
