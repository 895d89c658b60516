import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { digestOf } from "../../src/frontend/keys/key_entry.ts";
import type { KeySet } from "../../src/frontend/keys/key_ring.ts";
import type { CertificatePair } from "../../src/frontend/tls/certificate.ts";
import { Credentials, type CredentialSettings } from "../../src/modes/credentials.ts";
import { createLogger, type Logger, silentLogger } from "../../src/observe/log.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { selfSigned } from "../support/certificates.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const NONE: CredentialSettings = {
  apiKeys: [],
  apiKeyFile: null,
  keyRequestsPerMinute: 0,
  keyConcurrentRequests: 0,
  tlsCert: null,
  tlsKey: null,
  shards: 2,
};

/** A folder with files, and what became of loading them. */
class Mount implements AsyncDisposable {
  readonly clock = new VirtualClock();
  readonly log: string[] = [];
  readonly pairs: CertificatePair[] = [];
  readonly sets: KeySet[] = [];
  readonly folder: string;
  credentials: Credentials | null = null;
  #version = 0;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Mount> {
    return new Mount(await Deno.makeTempDir());
  }

  path(name: string): string {
    return `${this.folder}/data/${name}`;
  }

  /** Replaces all files at once, as an orchestrator mounts a secret: by a link to a new folder. */
  async put(files: Record<string, string>): Promise<void> {
    const version = `v${this.#version++}`;
    await Deno.mkdir(`${this.folder}/${version}`);
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${this.folder}/${version}/${name}`, text);
    }
    await Deno.symlink(version, `${this.folder}/next`);
    await Deno.rename(`${this.folder}/next`, `${this.folder}/data`);
  }

  async load(settings: Partial<CredentialSettings>): Promise<Credentials> {
    const log: Logger = createLogger({ write: (line) => this.log.push(line) });
    const credentials = this.credentials = await Credentials.load({ ...NONE, ...settings }, log, this.clock);
    credentials.tell({
      onCertificate: (pair) => this.pairs.push(pair),
      onKeys: (set) => this.sets.push(set),
    });
    return credentials;
  }

  get tls(): Partial<CredentialSettings> {
    return { tlsCert: this.path("tls.crt"), tlsKey: this.path("tls.key") };
  }

  /** Two readings, and whatever they lead to. */
  async look(): Promise<void> {
    for (let i = 0; i < 2; i++) {
      this.clock.advance(1_000);
      // Each ends in the timer of the next.
      await until(() => this.clock.pendingTimers > 0, "the files to be read");
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.credentials?.close();
    await Deno.remove(this.folder, { recursive: true });
  }
}

const [first, second] = [await selfSigned({ name: "first" }), await selfSigned({ name: "second" })];
const files = ({ cert, key }: CertificatePair) => ({ "tls.crt": cert, "tls.key": key });

const BAD_PAIRS: [name: string, files: Record<string, string>, message: RegExp][] = [
  [
    "no certificate file",
    { "tls.key": first.key },
    /^Cannot use --tls-cert "[^"]+\/tls\.crt": there is no such file$/,
  ],
  [
    "no key file",
    { "tls.crt": first.cert },
    /^Cannot use --tls-key "[^"]+\/tls\.key": there is no such file$/,
  ],
  [
    "no certificate in its file",
    { "tls.crt": first.key, "tls.key": first.key },
    /--tls-cert "[^"]+": it holds no certificate in PEM$/,
  ],
  [
    "a cut certificate",
    { "tls.crt": first.cert.replace(/\n.{64}\n/, "\n"), "tls.key": first.key },
    /--tls-cert "[^"]+": its certificate 1 cannot be read$/,
  ],
  ["a cut certificate in its chain", {
    "tls.crt": first.cert + second.cert.replace(/\n.{64}\n/, "\n"),
    "tls.key": first.key,
  }, /--tls-cert "[^"]+": its certificate 2 cannot be read$/],
  [
    "a chain without end",
    { "tls.crt": first.cert.repeat(17), "tls.key": first.key },
    /--tls-cert "[^"]+": it holds 17 certificates, allowed are 16$/,
  ],
  [
    "no key in its file",
    { "tls.crt": first.cert, "tls.key": first.cert },
    /--tls-key "[^"]+": it holds no private key in PEM$/,
  ],
  ["an encrypted key", {
    "tls.crt": first.cert,
    "tls.key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
  }, /--tls-key "[^"]+": it is encrypted, and a passphrase cannot be given$/],
  [
    "the key of another",
    { "tls.crt": first.cert, "tls.key": second.key },
    /--tls-key "[^"]+": it does not belong to --tls-cert "[^"]+"$/,
  ],
];
/** A pair of a kind that the TLS library takes without a word and then fails each handshake by: Ed448. */
const UNFIT_PAIR = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBeTCB+qADAgECAhRDfAW4vMd0sZcenLn8KdwToJWenDAFBgMrZXEwDDEKMAgG
A1UEAwwBdTAgFw0yNjEyMDcxMjE2MzBaGA8yMTI2MTExMzEyMTYzMFowDDEKMAgG
A1UEAwwBdTBDMAUGAytlcQM6AEkWot441p6QnKD5kD1LciQkSOg9yzpksjcMbcoc
iVvoLt2ZPnaFORRAh1Po3oO0Ab0IMdgQuqR7gKNTMFEwHQYDVR0OBBYEFHZb5qcl
mkif4U+hM2cM+pI95o07MB8GA1UdIwQYMBaAFHZb5qclmkif4U+hM2cM+pI95o07
MA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VxA3MAPHtkZ8A1++kuF5pAQYBvodZrgCUH
ojNdAp9Z83Ob4NU2bnW7dts0+aykbr/xcxFbTgacQqZyncWA2cNdXeIbAREDRpKE
hhbLCd3xVwZ7T13IZhLzk0lH5r/PY2RZHBwkCzpTUEnHJjqCkQi3lwYBezsA
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MEcCAQAwBQYDK2VxBDsEOez7CqkISiGw7LybuqBg0bLrcLn6IEibvL24et389K+K
Boqvg0uzmiDjd+s9WbEKgykimXGvHS/wVA==
-----END PRIVATE KEY-----
`,
};
BAD_PAIRS.push([
  "a key that serves no handshake",
  files(UNFIT_PAIR),
  /--tls-cert "[^"]+": no handshake succeeds by it: /,
]);

for (const [name, bad, message] of BAD_PAIRS) {
  Deno.test(`Credentials refuse to start with ${name}, and go on with what they have`, async () => {
    await using mount = await Mount.make();
    await mount.put(bad);
    const error = await assertRejects(() => mount.load(mount.tls), TokenplaneError);
    assert(error.code === "invalid_config" && message.test(error.message), error.message);
    await mount.put(files(first));
    const credentials = await mount.load(mount.tls);
    await mount.put(bad);
    for (let i = 0; i < 3; i++) await mount.look();
    assertEquals([credentials.certificate, mount.pairs], [first, []]);
    assertEquals(mount.log.length, 1);
    assert(/error reload_failed .*what was stays in use/.test(mount.log[0]!), mount.log[0]);
    // The key itself is nowhere in it.
    assert(!mount.log[0]!.includes(first.key.split("\n")[1]!));
    await mount.put(files(second));
    await mount.look();
    assertEquals([credentials.certificate, mount.pairs], [second, [second]]);
  });
}

Deno.test("Credentials take a pair of which one half was replaced before the other", async () => {
  await using mount = await Mount.make();
  await mount.put(files(first));
  await mount.load(mount.tls);
  await Deno.writeTextFile(mount.path("tls.crt"), second.cert);
  mount.clock.advance(1_000);
  await until(() => mount.clock.pendingTimers > 0, "the files to be read");
  await Deno.writeTextFile(mount.path("tls.key"), second.key);
  await mount.look();
  assertEquals(mount.pairs, [second]);
  assertEquals(mount.log.length, 1);
  assert(
    /info {2}tls_certificate_reloaded fingerprint=[0-9A-F:]{95} chain=1 not_after=/.test(mount.log[0]!),
    mount.log[0],
  );
});

Deno.test("Credentials serve by a chain, and warn of a certificate whose time is over or has not come", async () => {
  await using mount = await Mount.make();
  await mount.put({ "tls.crt": `a comment\n${first.cert}${second.cert}`, "tls.key": first.key });
  const credentials = await mount.load(mount.tls);
  assertEquals(mount.log, []);
  const collectors = new Collectors();
  credentials.addMetrics(collectors);
  const expiry = async () =>
    Number(/expiry_timestamp_seconds (\d+)/.exec((await collectors.page()).body)![1]);
  assertEquals(Math.round((await expiry() - Date.now() / 1_000) / 86_400), 30);
  await mount.put(files(await selfSigned({ fromDays: -2, untilDays: -1 })));
  await mount.look();
  await mount.put(files(await selfSigned({ fromDays: 1, untilDays: 2 })));
  await mount.look();
  const warnings = mount.log.filter((line) => line.includes("tls_certificate_not_valid"));
  assertEquals(warnings.map((line) => /reason="([^"]+) \d{4}/.exec(line)![1]), [
    "expired at",
    "not valid before",
  ]);
  assertEquals([mount.pairs.length, Math.round((await expiry() - Date.now() / 1_000) / 86_400)], [2, 2]);
});

Deno.test("Credentials cut off keys that were taken out of their file, and let new ones in", async () => {
  await using mount = await Mount.make();
  await mount.put({ keys: "sk-one # one\nsk-two rpm=5\n" });
  const settings = {
    apiKeyFile: mount.path("keys"),
    apiKeys: ["sk-flag", "sk-two"],
    keyRequestsPerMinute: 60,
  };
  const credentials = await mount.load(settings);
  const shown = () => credentials.keys.keys.map(({ digest, rpm }) => [digest, rpm]);
  assertEquals(shown(), [[digestOf("sk-one"), 60], [digestOf("sk-two"), 5], [digestOf("sk-flag"), 60]]);
  const [, two, flag] = credentials.keys.keys;
  await mount.put({ keys: "sk-three\nsk-two # two\n" });
  await mount.look();
  assertEquals(shown(), [[digestOf("sk-three"), 60], [digestOf("sk-two"), 60], [digestOf("sk-flag"), 60]]);
  // Those that stay keep their counts.
  assertEquals(credentials.keys.keys.slice(1).map(({ place }) => place), [two!.place, flag!.place]);
  assertEquals(mount.sets, [credentials.keys]);
  await mount.put({ keys: "sk-three sk-four" });
  for (let i = 0; i < 3; i++) await mount.look();
  assertEquals([mount.sets.length, mount.log.length], [1, 2]);
  assert(mount.log[1]!.includes("line 1: behind the key may stand"), mount.log[1]);
  assert(!mount.log.join("").includes("sk-"));
});

Deno.test("Credentials do not start with a file that holds no key; one that is emptied lets nobody in", async () => {
  await using mount = await Mount.make();
  const settings = { apiKeyFile: mount.path("keys") };
  await mount.put({ keys: "# none\n" });
  await assertRejects(() => mount.load(settings), TokenplaneError, 'keys": it holds no key');
  await assertRejects(() => mount.load({ apiKeyFile: mount.folder }), TokenplaneError, "it is not a file");
  await mount.put({ keys: "sk-one" });
  const credentials = await mount.load(settings);
  await mount.put({ keys: "" });
  await mount.look();
  assertEquals([credentials.keys, mount.sets.length], [{ isOpen: false, keys: [] }, 1]);
  assert(mount.log[0]!.includes("nobody is let in"));
  await mount.put({ keys: "sk-one" });
  await mount.look();
  assertEquals(credentials.keys.keys.length, 1);
});

Deno.test("Credentials without files read none, and let everyone in without a key", async () => {
  const clock = new VirtualClock();
  const open = await Credentials.load(NONE, silentLogger, clock);
  const keyed = await Credentials.load({ ...NONE, apiKeys: ["sk-one"] }, silentLogger, clock);
  assertEquals([open.keys.isOpen, keyed.keys.isOpen, keyed.keys.keys.length, clock.pendingTimers], [
    true,
    false,
    1,
    0,
  ]);
  assertEquals([open.certificate, open.memory.columns], [null, 4]);
  assertNotEquals(keyed.keys.keys[0]!.name, "sk-one");
});
