import { assertEquals } from "@std/assert";
import { type FileContent, FileWatch, readContent } from "../../src/modes/file_watch.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

/** Files in memory, a virtual clock, and what a watch told of them. */
class Folder {
  readonly clock = new VirtualClock();
  readonly files = new Map<string, string>();
  readonly told: string[] = [];
  watch: FileWatch | null = null;

  read(path: string): FileContent {
    const text = this.files.get(path);
    return text === undefined ? { fault: "there is no such file" } : { text };
  }

  start(...paths: string[]): this {
    this.watch = new FileWatch(
      paths,
      paths.map((path) => this.read(path)),
      this.clock,
      (contents) => {
        this.told.push(contents.map((one) => "text" in one ? one.text : one.fault).join("|"));
      },
      (path) => Promise.resolve(this.read(path)),
    );
    return this;
  }

  /** A second passes, and what was read in it is looked at. */
  async second(): Promise<void> {
    this.clock.advance(1_000);
    for (let i = 0; i < 5; i++) await Promise.resolve();
  }
}

Deno.test("FileWatch tells a change once, when two readings were the same", async () => {
  const folder = new Folder();
  folder.files.set("a", "1").set("b", "1");
  folder.start("a", "b");
  await folder.second();
  folder.files.set("a", "2");
  await folder.second();
  folder.files.set("b", "2");
  await folder.second();
  assertEquals(folder.told, []);
  for (let i = 0; i < 5; i++) await folder.second();
  assertEquals(folder.told, ["2|2"]);
  folder.watch!.close();
  assertEquals(folder.clock.pendingTimers, 0);
});

Deno.test("FileWatch tells a file that has gone once, and when it is back as it was nothing but that", async () => {
  const folder = new Folder();
  folder.files.set("a", "1");
  folder.start("a");
  folder.files.delete("a");
  for (let i = 0; i < 5; i++) await folder.second();
  assertEquals(folder.told, ["there is no such file"]);
  folder.files.set("a", "1");
  for (let i = 0; i < 5; i++) await folder.second();
  assertEquals(folder.told, ["there is no such file", "1"]);
  folder.watch!.close();
});

Deno.test("FileWatch says nothing of what was there for a moment", async () => {
  const folder = new Folder();
  folder.files.set("a", "1");
  folder.start("a");
  folder.files.set("a", "");
  await folder.second();
  folder.files.set("a", "1");
  for (let i = 0; i < 5; i++) await folder.second();
  assertEquals(folder.told, []);
  folder.watch!.close();
  // A reading under way when it was closed starts nothing again.
  folder.start("a");
  folder.clock.advance(1_000);
  folder.watch!.close();
  for (let i = 0; i < 5; i++) await Promise.resolve();
  assertEquals(folder.clock.pendingTimers, 0);
});

Deno.test("readContent reads text through links, and says why it cannot", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/file`;
    const fault = async (what: string) => (await readContent(what) as { fault: string }).fault;
    assertEquals(await fault(path), "there is no such file");
    await Deno.writeTextFile(`${folder}/one`, "one");
    await Deno.symlink("one", path);
    assertEquals(await readContent(path), { text: "one" });
    await Deno.writeTextFile(`${folder}/two`, "two");
    await Deno.symlink("two", `${folder}/new`);
    await Deno.rename(`${folder}/new`, path);
    assertEquals(await readContent(path), { text: "two" });
    assertEquals(await fault(folder), "it is not a file");
    await Deno.writeFile(`${folder}/two`, new Uint8Array([0xff, 0xfe]));
    assertEquals(await fault(path), "it is not UTF-8 text");
    await Deno.writeFile(`${folder}/two`, new Uint8Array(1_048_577));
    assertEquals(await fault(path), "it is larger than 1048576 bytes");
    await Deno.writeFile(`${folder}/two`, new Uint8Array(1_048_576).fill(0x78));
    assertEquals((await readContent(path) as { text: string }).text.length, 1_048_576);
    const { success } = await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
    if (success) assertEquals(await fault(`${folder}/pipe`), "it is not a file");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
